package controls

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// Kind is a kind of things that can be set.
type Kind int

// The kinds of things.
const (
	QueuePause Kind = iota // a queue, from which nothing is taken
	KeyPause               // a tenant of a queue, of which nothing is taken
	KeyWeight              // a tenant's weight in a queue
)

// Thing names one thing that can be set. It is comparable.
type Thing struct {
	Kind  Kind
	Queue string
	Key   string // of KeyPause and KeyWeight; "" are the messages without one
}

const (
	pausePrefix  = "pause."
	weightPrefix = "weight."
)

// record is the name of the thing's record.
func (t Thing) record() (string, error) {
	if t.Kind == QueuePause {
		return pausePrefix + t.Queue, nil
	}
	token, err := names.EncodeKey(t.Key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	prefix := pausePrefix
	if t.Kind == KeyWeight {
		prefix = weightPrefix
	}
	return prefix + t.Queue + "." + token, nil
}

// parseRecord is the inverse of record; false for names that it does not give. Names of queues have no dots.
func parseRecord(name string) (Thing, bool) {
	rest, pause := strings.CutPrefix(name, pausePrefix)
	if !pause {
		var weight bool
		if rest, weight = strings.CutPrefix(name, weightPrefix); !weight {
			return Thing{}, false
		}
	}
	queue, token, ofKey := strings.Cut(rest, ".")
	if queue == "" || !ofKey && !pause {
		return Thing{}, false
	}
	if !ofKey {
		return Thing{Kind: QueuePause, Queue: queue}, true
	}
	key, ok := names.DecodeKey(token)
	if !ok {
		return Thing{}, false
	}
	if pause {
		return Thing{Kind: KeyPause, Queue: queue, Key: key}, true
	}
	return Thing{Kind: KeyWeight, Queue: queue, Key: key}, true
}
