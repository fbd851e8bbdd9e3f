package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// retryMark begins the id of a message that was put back. It is no escape, because those are in upper case, so that it cannot
// meet the id of any publisher.
const retryMark = "=dead:"

// RetryDeadLetter puts a dead letter back into its queue as a new message, at a level, or, without one, at the queue's
// dead_letters.retry_priority, or else where it was: also among the messages without a priority. Key, payload and headers
// are the original's; its attempts begin anew, and so does its time: an expiry does not go along.
//
// The copy is stored first, under an id made from the original's sequence, and only then the dead letter is taken out. So
// trying again twice, or by several agents, stores one copy, as long as the second one comes inside the queue's dedup
// window or after the first has ended. Sequences are never used again, so a message that dies again and is tried again is
// not taken for a duplicate. What a move that was interrupted has left of the original in the queue goes too.
//
// Errors wrap [ErrQueueFull], [ErrTooLarge] or [ErrUnavailable]: nothing was stored, the dead letter is where it was; or
// [ErrOutcomeUnknown]: the copy may be there, and so may the dead letter; trying again finishes it.
func (c *Client) RetryDeadLetter(ctx context.Context, q config.Queue, d *DeadLetter, level *int) (Receipt, error) {
	class := d.class
	switch {
	case level != nil:
		class = names.Class(*level)
	case q.DeadLetters.RetryPriority != nil:
		class = names.Class(*q.DeadLetters.RetryPriority)
	}
	h := make(nats.Header, len(d.header)+1)
	for name, values := range d.header {
		if !staysDead(name) {
			h[name] = values
		}
	}
	h[headerMsgID] = []string{retryMark + strconv.FormatUint(d.Seq, 10)}
	m := &nats.Msg{Subject: c.names.SubjectPrefix(q.Name) + class + "." + d.token, Header: h, Data: d.raw}
	if int64(m.Size()) > c.MaxPayload() {
		return Receipt{}, fmt.Errorf("%w (%d bytes with headers, of %d)", ErrTooLarge, m.Size(), c.MaxPayload())
	}
	ack, err := c.storeAndWait(ctx, m)
	if err != nil {
		return Receipt{}, err
	}
	if c.remove(ctx, q.Name, c.names.Stream(q.Name), d.Seq) == FinishUnknown {
		return Receipt{}, ErrOutcomeUnknown
	}
	taken := make(chan Finish, 1)
	c.erase(c.names.DeadStream(q.Name), d.stored, 1, func(f Finish) { taken <- f })
	select {
	case f := <-taken:
		if f == FinishUnknown {
			return Receipt{}, ErrOutcomeUnknown
		}
		if f == Finished {
			c.metrics.DeadRetried.Add(1)
		}
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	served, _ := names.ClassLevel(class)
	if served < 0 {
		served = q.DefaultPriority
	}
	return Receipt{Seq: ack.Sequence, Level: min(served, q.Levels-1), Duplicate: ack.Duplicate}, nil
}

// staysDead tells whether a header is about the message that died, and not its copy's: it is none of the delayed any more.
func staysDead(name string) bool {
	return hasPrefixFold(name, serverPrefix) || strings.EqualFold(name, headerDead) || strings.EqualFold(name, headerExpires) ||
		strings.EqualFold(name, headerDelayed)
}
