package broker

import (
	"time"

	"github.com/fairlead/fairlead/fairshare"
)

// Publication is one message to be stored, as the socket's publish calls hand it over: checked, and with its key decoded.
type Publication struct {
	Level       int              // 0 is the highest; -1: none given, the queue's default applies
	Key         string           // tenant key, decoded; "" is unkeyed
	Weight      fairshare.Weight // 0: none given
	ID          string           // for duplicate suppression, per key; "" is none
	ContentType string
	Headers     map[string]string // application headers, traceparent and tracestate, names in lower case; may be nil
	Data        []byte            // as published; belongs to the callee until Publish returns
	Compress    bool              // this one, whatever the queue says
	At          time.Time         // not to be delivered before; the zero time, and one that has passed, is now
	TTL         time.Duration     // not to be delivered later than this after the publish; 0: the queue's
}

// Receipt says what became of a publication that JetStream has stored.
type Receipt struct {
	Seq     uint64 // in the queue's stream; 0 for a delayed one
	Delayed string // the handle of a delayed one; "" for others, and for a duplicate of one that is not delayed any more
	// Level is the level it is served at. Of a duplicate it is the first one's as long as that is there, and else, and from
	// PublishAsync, the one that was asked for.
	Level     int
	Duplicate bool // stored before under the same id; Seq or Delayed is the earlier one's
}
