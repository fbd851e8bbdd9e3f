package bucket

import (
	"errors"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

var (
	// ErrConflict says that a record was not at the expected revision. Nothing was written.
	ErrConflict = wire.ErrConflict
	// ErrUnusable says that the coordination bucket is not usable: it is missing, or was made by someone else. Messages are
	// still delivered; attempts and delays of returned messages are not kept until it is back.
	ErrUnusable = errors.New("broker: coordination bucket is not usable")
)
