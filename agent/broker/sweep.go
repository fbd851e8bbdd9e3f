package broker

import (
	"context"
	"sort"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Found is a lane in which a sweep found messages.
type Found struct {
	Address Address
	// Messages is how many messages are stored: waiting, in somebody's hands, or backing off.
	Messages uint64
}

// Sweep is what one look over a queue found.
type Sweep struct {
	Lanes []Found // in the order of their addresses
	// Odd are subjects with messages that are not canonical.
	Odd []string
	// Took is how long the server needed.
	Took time.Duration
}

// Sweep lists the lanes of a queue that hold messages. The cost grows with the number of subjects that have some: about
// 2 ms per thousand.
func (c *Client) Sweep(ctx context.Context, layout Layout) (Sweep, error) {
	c.metrics.Sweeps.Add(layout.Queue)
	start := time.Now()
	info, err := c.subjects(ctx, layout.Queue)
	if err != nil {
		return Sweep{}, err
	}
	s := Sweep{Took: time.Since(start)}
	c.attempts.flush()
	for _, key := range c.attempts.leftovers(layout.Queue, info.State.FirstSeq, time.Now()) {
		c.bucket.Delete(key.String(), func(uint64, error) {}) // if that fails, the next time
	}
	prefix := c.names.SubjectPrefix(layout.Queue)
	lanes := make(map[Address]uint64, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		class, key, ok := names.Split(strings.TrimPrefix(subject, prefix))
		var a Address
		if ok {
			a, ok = layout.Address(class, key)
		}
		if !ok {
			s.Odd = append(s.Odd, subject)
			continue
		}
		lanes[a] += n
	}
	s.Lanes = make([]Found, 0, len(lanes))
	for a, n := range lanes {
		s.Lanes = append(s.Lanes, Found{a, n})
	}
	sort.Slice(s.Lanes, func(i, j int) bool { return s.Lanes[i].Address.less(s.Lanes[j].Address) })
	sort.Strings(s.Odd)
	return s, nil
}

func (a Address) less(b Address) bool {
	if a.Level != b.Level {
		return a.Level < b.Level
	}
	if a.Class != b.Class {
		return a.Class < b.Class
	}
	return a.Key < b.Key
}

// subjects describes a queue's stream and counts the messages of each of its subjects, page by page.
func (c *Client) subjects(ctx context.Context, queue string) (*wire.StreamInfo, error) {
	return c.wire.Subjects(ctx, c.names.Stream(queue), c.names.Subjects(queue))
}

func (c *Client) streamInfo(ctx context.Context, queue string, offset int) (*wire.StreamInfo, error) {
	return c.wire.Info(ctx, c.names.Stream(queue), c.names.Subjects(queue), offset)
}
