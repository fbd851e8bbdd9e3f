package broker

import (
	"cmp"
	"slices"

	"github.com/fairlead/fairlead/config"
)

// bury removes an evicted message, to the dead letters where the queue keeps evicted ones. It is in this agent's hands, and
// done gets what became of it, as from Finish: what could not be kept is not evicted.
func (c *Client) bury(q config.Queue, m *Message, done func(Finish)) {
	if !keepsDead(q, DeadEvicted) {
		c.Finish(m, done)
		return
	}
	c.Bury(m, Burial{Reason: DeadEvicted, Attempts: m.Attempt - 1}, func(f Finish, _ error) { done(f) })
}

func sortedBySeq(messages []*Message) []*Message {
	sorted := slices.Clone(messages)
	slices.SortFunc(sorted, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return sorted
}
