package api

// Header names of the socket API.
const (
	HeaderPriority = "Fairlead-Priority"
	HeaderKey      = "Fairlead-Key"
	HeaderWeight   = "Fairlead-Weight"
	HeaderID       = "Fairlead-Id"
	HeaderDelay    = "Fairlead-Delay"
	HeaderAt       = "Fairlead-At"
	HeaderTTL      = "Fairlead-TTL"
	HeaderCompress = "Fairlead-Compress"
	HeaderPrefix   = "Fairlead-Header-" // + an application header's name

	HeaderToken   = "Fairlead-Token"
	HeaderQueue   = "Fairlead-Queue"
	HeaderSeq     = "Fairlead-Seq"
	HeaderAttempt = "Fairlead-Attempt"
	HeaderFence   = "Fairlead-Fence"
	HeaderState   = "Fairlead-State" // active | draining, on every answer
)

// Content types.
const (
	TypeNDJSON = "application/x-ndjson"
	TypeFrames = "application/vnd.fairlead.frames"
	TypeJSON   = "application/json"
)

// Agent states, as in the header Fairlead-State.
const (
	StateActive   = "active"
	StateDraining = "draining"
)
