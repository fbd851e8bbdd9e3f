package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
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

// streamInfo is the part of JetStream's answer that counts subjects.
type streamInfo struct {
	Error  *apiError `json:"error"`
	Total  int       `json:"total"`
	Offset int       `json:"offset"`
	Limit  int       `json:"limit"`
	Now    time.Time `json:"ts"` // by the server's clock, which also dates messages
	State  struct {
		Messages uint64            `json:"messages"`
		Bytes    uint64            `json:"bytes"`
		FirstSeq uint64            `json:"first_seq"`
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// subjects describes a queue's stream and counts the messages of each of its subjects, page by page.
func (c *Client) subjects(ctx context.Context, queue string) (*streamInfo, error) {
	return c.subjectsUnder(ctx, c.names.Stream(queue), c.names.Subjects(queue))
}

// subjectsUnder is the same of any stream, for the subjects under a filter.
func (c *Client) subjectsUnder(ctx context.Context, stream, filter string) (*streamInfo, error) {
	first, err := c.infoUnder(ctx, stream, filter, 0)
	if err != nil {
		return nil, err
	}
	for page := first; page.Limit > 0 && page.Offset+page.Limit < page.Total; {
		if page, err = c.infoUnder(ctx, stream, filter, page.Offset+page.Limit); err != nil {
			return nil, err
		}
		for subject, n := range page.State.Subjects {
			first.State.Subjects[subject] = n
		}
	}
	return first, nil
}

func (c *Client) streamInfo(ctx context.Context, queue string, offset int) (*streamInfo, error) {
	return c.infoUnder(ctx, c.names.Stream(queue), c.names.Subjects(queue), offset)
}

func (c *Client) infoUnder(ctx context.Context, stream, filter string, offset int) (*streamInfo, error) {
	body, err := json.Marshal(struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset"`
	}{filter, offset})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	m := &nats.Msg{Subject: "$JS.API.STREAM.INFO." + stream, Data: body}
	answer, err := permitted(ctx, c, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return c.nc.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, translate(err))
	}
	var info streamInfo
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, err)
	}
	if info.Error != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, info.Error)
	}
	return &info, nil
}
