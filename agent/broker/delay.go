package broker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

const (
	// headerDelayed is the handle that a message had while it was delayed.
	headerDelayed = "Fairlead-Delayed"
	// headerSchedule and headerTarget tell JetStream when to store a message again, and on which subject.
	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"
)

// ErrNoDelays says that a queue has no stream for delayed messages: it was set up by an older version, or deleted. It wraps
// [ErrUnavailable]. Nothing was stored.
var ErrNoDelays = fmt.Errorf("%w: the queue has no stream for delayed messages", ErrUnavailable)

// delay makes of a message for the queue one that waits among the delayed ones, and returns its handle. What is in it stays
// as it is: when its time has come, JetStream stores it again on the subject of due messages, without its id.
func (c *Client) delay(m *nats.Msg, queue string, at time.Time) (handle string) {
	class, token, _ := names.Split(strings.TrimPrefix(m.Subject, c.names.SubjectPrefix(queue)))
	d := names.Delayed{Class: class, Token: token, Handle: names.NewHandle(at)}
	prefix := c.names.DelayPrefix(queue)
	m.Subject = prefix + d.Subject()
	d.Due = true
	m.Header[headerTarget] = []string{prefix + d.Subject()}
	// By hand: nats.go cuts off what is below a second, and the message would be early.
	m.Header[headerSchedule] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
	delete(m.Header, headerTTL) // the schedule itself must not go before its time
	return d.Handle
}

// storeDelayed stores a delayed message, for which a receipt was prepared. That of a duplicate is about the first one; it has
// no handle when that is not delayed any more.
func (c *Client) storeDelayed(m *nats.Msg, q config.Queue, r Receipt, done func(Receipt, error)) {
	c.store(m, func(ack wire.PubAck, err error) {
		switch {
		case errors.Is(err, ErrNobody):
			done(Receipt{}, fmt.Errorf("%w (%s)", ErrNoDelays, c.names.DelayStream(q.Name)))
		case err != nil:
			c.refused(q.Name, err)
			done(Receipt{}, err)
		case !ack.Duplicate:
			c.metrics.Delayed.Add(1)
			done(r, nil)
		default:
			c.metrics.Duplicates.Add(1)
			c.wire.LookUp(c.names.DelayStream(q.Name), wire.Look{Seq: ack.Sequence}, func(subject string, _ uint64, _ error) {
				r.Duplicate, r.Delayed = true, ""
				if d, ok := names.ParseDelayed(strings.TrimPrefix(subject, c.names.DelayPrefix(q.Name))); ok {
					r.Delayed, r.Level = d.Handle, NewLayout(q).levelOf(d.Class)
				}
				done(r, nil)
			})
		}
	})
}

// clearDelayed makes sure that nothing is left among the delayed messages of one that is about to be finished: a mover that
// died after it had moved it has left it there. Whoever finds it there later knows from this that it was not finished, and
// so that its copy, if there is one, is still in the queue.
func (c *Client) clearDelayed(queue, handle string, done func(error)) {
	if _, ok := names.ParseHandle(handle); !ok {
		done(nil) // of a raw publisher: nothing can have this handle
		return
	}
	stream := c.names.DelayStream(queue)
	filter := c.names.DelayPrefix(queue) + names.DueToken + ".*.*." + handle
	c.wire.LookUp(stream, wire.Look{Seq: 1, Filter: filter}, func(_ string, seq uint64, err error) {
		if err != nil || seq == 0 {
			done(err)
			return
		}
		c.drop(stream, seq, 1, func(f Finish) {
			if f == FinishUnknown {
				done(ErrOutcomeUnknown)
				return
			}
			done(nil)
		})
	})
}

// drop deletes one message of any stream, and tries again while the outcome is unknown.
func (c *Client) drop(stream string, seq uint64, try int, done func(Finish)) {
	c.wire.Deletes.Do(wire.DeleteRequest(stream, seq), func(answer *nats.Msg, err error) {
		switch {
		case err == nil:
			done(c.readDeleted(answer))
		case errors.Is(err, ErrOutcomeUnknown) && try < writeTries && c.Connected():
			c.drop(stream, seq, try+1, done)
		default:
			done(FinishUnknown)
		}
	})
}
