package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// DeadReason is why a message was given up.
type DeadReason string

// The reasons for giving a message up.
const (
	DeadMaxAttempts DeadReason = "max_attempts" // it was tried as often as the queue's retry.max_attempts allows
	DeadRejected    DeadReason = "rejected"     // its app said that trying again is of no use
	DeadEvicted     DeadReason = "evicted"      // it made room for a newer one
)

// Burial says why a message is given up, and after what.
type Burial struct {
	Reason   DeadReason
	Attempts int    // hand-overs that counted, the last one included
	Error    string // the last error, or ""
}

// ErrDeadLetters says that a message was given up and its dead letter could not be stored: the dead-letter stream is
// missing, full or refuses it. The message is still in its queue. The text says which, and what to do.
var ErrDeadLetters = errors.New("broker: dead letter cannot be stored")

const (
	// buryPause is the shortest wait before a message that could not be buried is looked at again.
	buryPause = time.Second
	// serialBury is when a serial lane is asked again whose message is being buried.
	serialBury = 10 * time.Millisecond
	// diedWithIt is the last error of a message whose agents left no word.
	diedWithIt = "the agent or the app died with it"
)

// Bury gives a message up: it is moved to the queue's dead letters, or dropped where the definition in force keeps none.
//
// First the verdict is written to the message's record of attempts: from then on nobody hands it out, whatever happens to
// this agent. Then the dead letter is stored, on a subject of its own that must be empty, so that a second one of the same
// message is refused; a try without an answer is repeated. Only then the message is deleted from its queue. JetStream
// hears of the message all the while, however long that takes.
//
// done is called once, from any goroutine, and must not block. Without an error the message is gone: Finished says that
// this call did it, AlreadyFinished that somebody else had finished it before. With one (FinishUnknown; it wraps
// [ErrDeadLetters], [ErrUnavailable] or [ErrOutcomeUnknown]) the message is still in this agent's hands: it is to be buried
// again, or returned with the verdict, see [Return]. [ErrTenureOver] says that it was let go: the next holder finds the
// verdict, or counts for itself.
func (c *Client) Bury(m *Message, b Burial, done func(Finish, error)) {
	def, ok := c.definition(m.Queue)
	if !ok {
		done(FinishUnknown, fmt.Errorf("%w: %w: %s", ErrDeadLetters, ErrUnknownQueue, m.Queue))
		return
	}
	if !m.held() {
		m.letGo()
		done(FinishUnknown, ErrTenureOver)
		return
	}
	g := &grave{c: c, m: m, b: b, keep: keepsDead(def, b.Reason), done: done}
	g.b.Error = cutReason(b.Error)
	g.extendLater()
	if !g.keep {
		g.remove()
		return
	}
	verdict := Return{Reason: g.b.Error, Dead: b.Reason}
	c.keep(m, c.attempts.verdict(m, b.Attempts, verdict), 1, g.store)
}

// keepsDead tells whether what is given up for a reason is kept.
func keepsDead(def config.Queue, why DeadReason) bool {
	return def.DeadLetters.Enabled && (why != DeadEvicted || def.DeadLetters.Evicted)
}

// definition is the one in force.
func (c *Client) definition(queue string) (config.Queue, bool) {
	if c.Definition == nil {
		return config.Queue{}, false
	}
	return c.Definition(queue)
}

// grave is one burial under way.
type grave struct {
	c    *Client
	m    *Message
	b    Burial
	keep bool // in the dead letters, rather than not at all
	done func(Finish, error)

	mu       sync.Mutex
	progress *time.Timer // nil when it is over, or never due
}

// extendLater keeps JetStream from giving the message to somebody else, should the burial take long.
func (g *grave) extendLater() {
	if g.m.AckWait <= 0 {
		return
	}
	every := max(g.m.AckWait/3, 10*time.Millisecond)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress = time.AfterFunc(every, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.progress != nil {
			g.c.Extend(g.m)
			g.progress.Reset(every)
		}
	})
}

func (g *grave) over(f Finish, err error) {
	g.mu.Lock()
	if g.progress != nil {
		g.progress.Stop()
		g.progress = nil
	}
	g.mu.Unlock()
	g.done(f, err)
}

// lost tells whether the message is another's now, and lets it go then.
func (g *grave) lost() bool {
	if g.m.held() {
		return false
	}
	g.m.letGo()
	g.over(FinishUnknown, ErrTenureOver)
	return true
}

// store stores the dead letter.
func (g *grave) store() {
	if g.lost() {
		return
	}
	letter, err := g.c.deadLetter(g.m, g.b)
	if err != nil {
		g.failed(err)
		return
	}
	g.c.store(letter, func(_ wire.PubAck, err error) {
		switch {
		case err == nil, errors.Is(err, ErrConflict): // now, or before by whoever had the message then
			g.remove()
		case errors.Is(err, ErrNobody):
			g.failed(fmt.Errorf("%w: stream %s is missing: run setup, or restart an agent that may make it", ErrDeadLetters, g.c.names.DeadStream(g.m.Queue)))
		case errors.Is(err, ErrUnavailable) && g.c.Connected(), errors.Is(err, ErrQueueFull), errors.Is(err, ErrTooLarge):
			g.failed(fmt.Errorf("%w in %s: %w", ErrDeadLetters, g.c.names.DeadStream(g.m.Queue), err))
		default:
			g.failed(err)
		}
	})
}

func (g *grave) failed(err error) {
	g.c.metrics.BurialsFailed.Add(1)
	g.c.seldom.Warn("a message that was given up cannot be moved to the dead letters; it stays in its queue and is tried again",
		"queue", g.m.Queue, "seq", g.m.Seq, "reason", string(g.b.Reason), "error", err)
	g.over(FinishUnknown, err)
}

// remove deletes the original.
func (g *grave) remove() {
	if g.lost() {
		return
	}
	g.c.Finish(g.m, func(f Finish) {
		if f == FinishUnknown {
			if g.lost() {
				return
			}
			g.c.metrics.BurialsFailed.Add(1)
			g.over(f, ErrOutcomeUnknown)
			return
		}
		if f == Finished {
			if g.keep {
				g.c.metrics.Dead.Add(g.m.Queue, string(g.b.Reason))
			} else {
				g.c.metrics.Dropped.Add(g.m.Queue, string(g.b.Reason))
			}
		}
		g.over(f, nil)
	})
}

// givenUp tells whether a message that just arrived is not to be handed out any more: that was decided before, and did not
// come to its end, or it was tried as often as is allowed, and whoever tried it last could not say so.
func (c *Client) givenUp(m *Message, rec attempt) (b Burial, yes bool) {
	if rec.Dead != "" {
		m.Attempt = rec.Tries + 1 // being moved is no attempt
		return Burial{Reason: rec.Dead, Attempts: rec.Tries, Error: rec.Error}, true
	}
	if m.Attempt <= 1 {
		return Burial{}, false
	}
	def, ok := c.definition(m.Queue)
	if most := def.Retry.MaxAttempts; !ok || most <= 0 || m.Attempt <= most {
		return Burial{}, false
	}
	b = Burial{Reason: DeadMaxAttempts, Attempts: m.Attempt - 1, Error: rec.Error}
	if b.Attempts > rec.Tries {
		b.Error = diedWithIt
	}
	return b, true
}

// buryTaken buries a message instead of handing it out.
func (c *Client) buryTaken(m *Message, b Burial) {
	if m.Lane.Layout.Serial() {
		m.heldUntil = time.Now().Add(serialBury) // until then the lane has nothing else to give
	}
	c.Bury(m, b, func(_ Finish, err error) {
		if err != nil && !errors.Is(err, ErrTenureOver) {
			c.Return(m, Return{NotBefore: time.Now().Add(c.lastBackoff(m.Queue)), Reason: b.Error, Dead: b.Reason}, func(error) {})
		}
	})
}

// lastBackoff is how long a message waits that could not be buried.
func (c *Client) lastBackoff(queue string) time.Duration {
	def, _ := c.definition(queue)
	if n := len(def.Retry.Backoff); n > 0 {
		return max(def.Retry.Backoff[n-1], buryPause)
	}
	return buryPause
}

// erase deletes one message of a stream that is no queue's, and reports whether it is gone.
func (c *Client) erase(stream string, seq uint64, try int, done func(Finish)) {
	c.wire.Deletes.Do(wire.DeleteRequest(stream, seq), func(answer *nats.Msg, err error) {
		switch {
		case errors.Is(err, ErrOutcomeUnknown) && try < writeTries && c.Connected():
			c.erase(stream, seq, try+1, done)
		case err != nil:
			done(FinishUnknown)
		default:
			done(c.readDeleted(answer))
		}
	})
}
