package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// A process that stood still sees the end of its round late, perhaps before the answers that came meanwhile: it waits for
// them a little longer, once, and nothing lower is taken in their place.
func TestARoundWhoseProcessStoodStillWaitsForItsAnswers(t *testing.T) {
	const asleep = roundLimit + 300*time.Millisecond
	for name, test := range map[string]struct {
		ticks []time.Duration // after the start of the round
		gives bool            // it goes on at the last of them
	}{
		"before the limit": {[]time.Duration{roundLimit - time.Millisecond}, false},
		"at the limit":     {[]time.Duration{roundLimit}, true},
		"overslept":        {[]time.Duration{asleep, asleep + rereading - 1}, false},
		"and once only":    {[]time.Duration{asleep, asleep + rereading}, true},
		"overslept twice":  {[]time.Duration{asleep, 2 * asleep}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, began := &mute{}, time.Unix(1000, 0)
			c := newCore(m, m, coreOptions{order: []string{"q"}, concurrency: 1, poll: time.Second})
			c.connection(true, began)
			c.define(definition(def("q", 2, 0, false, nil)), began)
			waits := []broker.Found{{Address: broker.Address{Class: "p0"}, Messages: 1}, {Address: broker.Address{Class: "p1"}, Messages: 1}}
			c.swept(c.queues[0], broker.Sweep{Lanes: waits}, nil, began)
			var got []*broker.Message
			c.ask(&pull{max: 1, deadline: began.Add(time.Hour), settled: true, answer: func(all []*broker.Message, _ error) { got = all }}, began)
			var now time.Time
			for i, at := range test.ticks {
				now = began.Add(at)
				c.tick(now)
				if gave, want := len(m.asked) > 1, test.gives && i == len(test.ticks)-1; gave != want {
					t.Fatalf("after %v a lower level was asked: %v, want %v", at, gave, want)
				}
				if next := c.next(); len(m.asked) == 1 && !next.After(now) {
					t.Fatalf("after %v the next tick is due %v ago", at, now.Sub(next))
				}
			}
			if test.gives {
				return
			}
			c.answered(broker.Answer{Lane: m.asked[0], Messages: []*broker.Message{{Queue: "q", Lane: m.asked[0], Seq: 1}}}, now)
			if len(got) != 1 {
				t.Fatalf("the answer brought %d messages", len(got))
			}
		})
	}
}
