package broker

import (
	"cmp"
	"slices"

	"github.com/fairlead/fairlead/config"
)

// bury removes an evicted message. It is in this agent's hands, and done gets what became of it, as from Finish.
func (c *Client) bury(_ config.Queue, m *Message, done func(Finish)) { c.Finish(m, done) }

func sortedBySeq(messages []*Message) []*Message {
	sorted := slices.Clone(messages)
	slices.SortFunc(sorted, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return sorted
}
