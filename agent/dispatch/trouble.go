package dispatch

import (
	"errors"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

const (
	// sayAgain is how often trouble that lasts is told. What fails is tried several times a second.
	sayAgain = time.Minute
	// sayNext is how often trouble that changes is told.
	sayNext = 10 * time.Second
)

// troubles remember what was told, so that a queue whose stream is gone does not fill the log. Owned by run.
type troubles map[troubleKey]told

type troubleKey struct{ what, queue string }

type told struct {
	text  string
	at    time.Time
	ended bool
}

// due tells whether err is to be told now: it is new, has changed, or has lasted. A nil error ends the trouble.
func (t troubles) due(key troubleKey, err error, now time.Time) bool {
	before, known := t[key]
	if err == nil {
		if known {
			before.ended = true
			t[key] = before
		}
		return false
	}
	pause := sayAgain
	if before.ended || before.text != err.Error() {
		pause = sayNext
	}
	if known && now.Sub(before.at) < pause {
		return false
	}
	t[key] = told{text: err.Error(), at: now}
	return true
}

// trouble tells of what goes wrong with a queue, once a minute as long as it is the same. While NATS is away everything
// fails, and that was said.
func (c *Capsule) trouble(what, queue string, err error, now time.Time) {
	if c.ctx.Err() != nil || err != nil && !c.o.Broker.Connected() || errors.Is(err, broker.ErrClosed) {
		return
	}
	if c.troubles.due(troubleKey{what, queue}, err, now) {
		c.o.Logger.Warn(what, "queue", queue, "error", err)
	}
}
