package leases

import "time"

// ActionKind says what the shell has to do.
type ActionKind uint8

const (
	// Read asks for the record at the store's leader; the answer is given to [Machine.ReadDone] or [Machine.ReadFailed].
	Read ActionKind = iota + 1
	// Write asks for a compare-and-set; the answer is given to [Machine.Written] or [Machine.NotWritten].
	Write
	// Rewatch asks for a new watch: the present one has missed something.
	Rewatch
	// Begin says that a tenure has begun.
	Begin
	// End says that a tenure has ended. Nothing may be handed out.
	End
	// HandOver asks for [Machine.Idle] as soon as nothing is in flight. Nothing more is handed out meanwhile.
	HandOver
	// Keep takes HandOver back: the one it was for has gone.
	Keep
)

// Action is something that the shell has to do. Actions are carried out in order; Read and Write do not wait for their
// answers.
type Action struct {
	Kind     ActionKind
	Request  uint64 // Read, Write: to be given back with the answer
	Record   Record // Write: what to write
	Expected uint64 // Write: at which revision; 0 if there must be nothing
	Fence    uint64 // Begin, End
	Reason   Reason // End
}

// Reason says why a tenure ended.
type Reason uint8

const (
	// Expired: trust ran out before a renewal was confirmed.
	Expired Reason = iota + 1
	// Replaced: another holder's record, or its release, was seen.
	Replaced
	// Vanished: the record was deleted, or the bucket is gone.
	Vanished
	// HandedOver: given to a higher candidate, between two messages.
	HandedOver
	// Released: no longer wanted here.
	Released
)

// String returns the reason as it is logged.
func (r Reason) String() string {
	switch r {
	case Expired:
		return "expired"
	case Replaced:
		return "replaced"
	case Vanished:
		return "vanished"
	case HandedOver:
		return "handed over"
	case Released:
		return "released"
	}
	return "none"
}

// Outcome says what is known of a write that did not succeed.
type Outcome uint8

const (
	// Unknown: it may have been carried out, or may be later.
	Unknown Outcome = iota
	// Conflict: the store says that the revision was another. That may be wrong, so it is Unknown with a hint.
	Conflict
	// Refused: it was not carried out, and will not be.
	Refused
	// BucketGone: there is no bucket.
	BucketGone
)

// Grant is what a candidate may do. The zero Grant is nothing.
type Grant struct {
	// Fence is the tenure's number; 0 without one.
	Fence uint64
	// Until is when trust ends, on this process's monotonic clock.
	Until time.Time
	// Open says that something may be handed out: it is not while the connection is away, nor while the lease is being
	// handed over.
	Open bool
}

// Held says whether the tenure lasts at now: what was handed out in it may be settled.
func (g Grant) Held(now time.Time) bool { return g.Fence != 0 && now.Before(g.Until) }

// Trusted says whether something may be handed out at now.
func (g Grant) Trusted(now time.Time) bool { return g.Open && g.Held(now) }
