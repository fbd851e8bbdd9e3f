package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/config"
)

// JetStream takes a new limit of messages per subject for an order: where a subject holds more, the oldest go at once, although
// the stream refuses what is new rather than to drop what is old, and although somebody may be working on them. (Its other
// limits drop nothing.) A queue promises that what was accepted stays. So the limit of a stream is not set below what a tenant has at one level:
// as long as one has more than the definition allows, or nearly as much, the stream gets a limit a little above that, which
// keeps the backlog from growing, and what the definition says when the backlog is gone.

// growth is what may be published on a subject that holds n messages between the look at it and the change of its stream, which takes
// a few milliseconds. More than that, and as many of the oldest go: nothing tells JetStream to look again at that moment.
func growth(n int64) int64 { return min(max(n/4, 10), 1000) }

// fits tells whether a limit can be set while the fullest subject holds so many messages.
func fits(limit, fullest int64) bool { return fullest+min(max(limit/4, 1), 1000) <= limit }

// spare keeps the change of a queue's stream from dropping messages.
func (c *Client) spare(ctx context.Context, q config.Queue, have jetstream.StreamConfig, want *jetstream.StreamConfig) error {
	limit := want.MaxMsgsPerSubject
	if limit <= 0 || have.MaxMsgsPerSubject > 0 && have.MaxMsgsPerSubject <= limit {
		c.spared.forget(q.Name)
		return nil
	}
	info, err := c.subjects(ctx, q.Name)
	if err != nil {
		return err
	}
	fullest := int64(0)
	for _, n := range info.State.Subjects {
		fullest = max(fullest, int64(n))
	}
	if fits(limit, fullest) {
		c.spared.forget(q.Name)
		return nil
	}
	want.MaxMsgsPerSubject = max(limit, fullest+growth(fullest))
	if have.MaxMsgsPerSubject > 0 {
		want.MaxMsgsPerSubject = min(want.MaxMsgsPerSubject, have.MaxMsgsPerSubject)
	}
	if c.spared.note(q.Name, sparing{limit: limit, fullest: fullest, until: want.MaxMsgsPerSubject}) {
		c.log.Warn("a tenant has more messages than max_messages_per_key would allow, or nearly as many; the limit is kept at more until they are worked off",
			"queue", q.Name, "limit", limit, "has", fullest, "for_now", want.MaxMsgsPerSubject)
	}
	return nil
}

// Spared are the queues whose limits.max_messages_per_key is not in force yet, in alphabetical order, because a tenant has more. They
// are to be given to [Client.EnsureStream] again, now and then.
func (c *Client) Spared() []string { return c.spared.queues() }

// SparedWarnings says the same in sentences.
func (c *Client) SparedWarnings() (list []string) {
	for _, queue := range c.spared.queues() {
		if s, ok := c.spared.of(queue); ok {
			list = append(list, fmt.Sprintf("queue %s: limits.max_messages_per_key is not %d yet, but %d, because a tenant has %d messages at one level, and accepted messages are not dropped: "+
				"it follows as soon as they are worked off, purged or expired", queue, s.limit, s.until, s.fullest))
		}
	}
	return list
}

// sparings remembers the queues whose streams keep a higher limit for now. The zero value is ready. Safe for several
// goroutines.
type sparings struct {
	mu  sync.Mutex
	now map[string]sparing
}

type sparing struct{ limit, fullest, until int64 }

// note reports whether that is new.
func (s *sparings) note(queue string, one sparing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[string]sparing{}
	}
	before, had := s.now[queue]
	s.now[queue] = one
	return !had || before.limit != one.limit
}

func (s *sparings) forget(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, queue)
}

func (s *sparings) of(queue string) (sparing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.now[queue]
	return one, ok
}

func (s *sparings) queues() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for queue := range s.now {
		list = append(list, queue)
	}
	slices.Sort(list)
	return list
}
