package broker

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/fairlead/fairlead/config"
)

// bury removes an evicted message, to the dead letters where the queue keeps evicted ones. It is in this agent's hands, and
// done gets what became of it, as from Finish; with an error it is still in its queue, and goes back. What could not be kept
// waits there as before. What may be among the dead letters by now keeps the verdict: handed out, it would be both.
func (c *Client) bury(q config.Queue, m *Message, done func(Finish, error)) {
	if !keepsDead(q, DeadEvicted) {
		c.Finish(m, func(f Finish) {
			var err error
			if f == FinishUnknown {
				err = ErrOutcomeUnknown
				c.Return(m, Return{}, func(error) {})
			}
			done(f, err)
		})
		return
	}
	c.Bury(m, Burial{Reason: DeadEvicted, Attempts: m.Attempt - 1}, func(f Finish, err error) {
		switch {
		case err == nil:
		case errors.Is(err, ErrDeadLetters):
			c.Return(m, Return{}, func(error) {})
		default:
			c.Return(m, Return{NotBefore: time.Now().Add(c.lastBackoff(m.Queue)), Dead: DeadEvicted}, func(error) {})
		}
		done(f, err)
	})
}

func sortedBySeq(messages []*Message) []*Message {
	sorted := slices.Clone(messages)
	slices.SortFunc(sorted, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return sorted
}
