package broker

import (
	"context"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Depth counts the messages of one part of a queue. Stored = Waiting + InFlight + BackingOff.
type Depth struct {
	Stored     uint64 // in the stream
	Waiting    uint64 // may be delivered now
	InFlight   uint64 // in somebody's hands, by the lanes' own count
	BackingOff uint64 // returned, and not before a time to come
}

// LevelStats is one level of a queue, as it is served.
type LevelStats struct {
	Level int
	Depth
	OldestAge time.Duration // of the oldest stored message, by the server's clock; 0 when there is none
}

// KeyStats is one tenant of a queue, over all levels.
type KeyStats struct {
	Key string // "" is unkeyed
	Depth
}

// Stats is what a queue holds.
type Stats struct {
	Queue string
	Depth
	Levels    []LevelStats // every level of the layout, 0 first
	Keys      []KeyStats   // the largest first, equal ones by key
	KeysTotal int          // tenants with messages
	OldestAge time.Duration
	Bytes     uint64 // as JetStream counts them
	FirstSeq  uint64 // of the stream
	// Odd are messages on subjects that are not canonical: stored, and counted at no level and for no tenant. They are
	// delivered once they were repaired.
	Odd   uint64
	Lanes int // lane consumers that exist
	// Partial is true when there were more lane consumers than a call looks at: what is in flight is at least as much as
	// InFlight says.
	Partial bool
}

// Stats counts what a queue holds, by level and by tenant, with at most keys tenants in the answer. Levels that no
// longer exist count as the lowest one, messages without a priority as the default level.
//
// Stored is exact at one moment; the others were read a little later and are kept consistent with it. In flight is what
// lanes wait for, less what is on record as returned; it follows a take, a finish or a return a moment later. Two things
// cannot be seen: after an agent was killed its work counts as in flight until it is delivered again; and what agents
// with another layout are running counts as waiting. Without fair share a lane serves all tenants, and the messages in
// flight are counted by level only.
//
// The cost grows with the number of (level, key) pairs that hold messages, about 2 ms per thousand, and with the number
// of lanes, of which it reads at most 16,384; add one read per level, at most 101. It does not grow with the number of
// messages. It blocks until it is done, ctx
// ends, or one of its requests is not answered within 6 s. Errors wrap [ErrStreamMissing] or [ErrUnavailable].
func (c *Client) Stats(ctx context.Context, layout Layout, keys int) (Stats, error) {
	info, err := c.subjects(ctx, layout.Queue)
	if err != nil {
		return Stats{}, err
	}
	lanes, partial, err := c.laneCounts(ctx, layout)
	if err != nil {
		return Stats{}, err
	}
	t := newTally(layout)
	prefix := c.names.SubjectPrefix(layout.Queue)
	for subject, n := range info.State.Subjects { // sums do not depend on the order
		t.stored(strings.TrimPrefix(subject, prefix), n)
	}
	t.held(lanes, c.attempts.of(layout.Queue), time.Now())
	s := t.stats(keys)
	s.Bytes, s.FirstSeq, s.Lanes, s.Partial = info.State.Bytes, info.State.FirstSeq, len(lanes), partial
	if err := c.ages(ctx, layout, t.classes, info.Now, &s); err != nil {
		return Stats{}, err
	}
	return s, nil
}

// ages finds the oldest message of each level, which is the first one under one of its classes.
func (c *Client) ages(ctx context.Context, layout Layout, classes map[string]bool, now time.Time, s *Stats) error {
	stream, prefix := c.names.Stream(layout.Queue), c.names.SubjectPrefix(layout.Queue)
	for token := range classes { // a maximum does not depend on the order
		m, err := c.wire.Read(ctx, stream, wire.Look{Seq: 1, Filter: prefix + token + ".*"})
		if err != nil {
			return err
		}
		if m == nil {
			continue // finished meanwhile
		}
		a, _ := layout.Address(token, names.Unkeyed)
		level := &s.Levels[a.Level]
		level.OldestAge = max(level.OldestAge, now.Sub(m.Time))
		s.OldestAge = max(s.OldestAge, level.OldestAge)
	}
	return nil
}
