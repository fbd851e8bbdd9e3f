package integration

import (
	"fmt"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// steady is an app that works without pause through a deep low level, and checks each pull against the messages of the
// top level that were stored before the pull began.
type steady struct {
	app *app

	mu        sync.Mutex
	top       map[string]time.Time // stored and not yet delivered: when the publish was answered
	seen      map[string]bool      // delivered, perhaps before the publish was answered
	published int

	left      int            // low messages that still wait
	delivered int            // of the top level
	late      int            // of these: the first pull that began after they were stored did not bring them
	behind    map[string]int // those, and how many pulls they have been waiting for
	latest    int            // the most pulls that any of them was behind
}

// run works for about this long, or until the backlog comes to its end, and returns low messages per second, of the time for
// which this machine ran.
func (s *steady) run(long time.Duration) float64 {
	s.app.t.Helper()
	began, low := ran(), 0
	for ran()-began < long && s.left > 100 {
		pulled := time.Now()
		due := s.due(pulled)
		got := s.app.pull(16, patience)
		if len(got) == 0 {
			s.app.t.Fatalf("nothing came although %d messages wait", s.left)
		}
		for name := range s.behind {
			s.behind[name]++
		}
		for _, d := range got {
			if d.Priority != 0 {
				low, s.left = low+1, s.left-1
				continue
			}
			s.delivered++
			s.mu.Lock()
			delete(s.top, string(d.Payload()))
			s.seen[string(d.Payload())] = true
			s.mu.Unlock()
			delete(due, string(d.Payload()))
			s.latest = max(s.latest, s.behind[string(d.Payload())])
			delete(s.behind, string(d.Payload()))
		}
		s.late += len(due)
		for name := range due {
			s.behind[name] = 0
		}
		s.app.ack(got...)
	}
	return float64(low) / max(ran()-began, time.Millisecond).Seconds()
}

// due returns the messages that were stored before now and are not delivered yet. Each is judged by one pull only.
func (s *steady) due(now time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := map[string]bool{}
	for name, stored := range s.top {
		if !stored.IsZero() && stored.Before(now) {
			due[name] = true
			s.top[name] = time.Time{}
		}
	}
	return due
}

// publishTop publishes to the top level at even intervals until stop is closed; the result is closed when it has ended.
func (s *steady) publishTop(stop <-chan struct{}, every time.Duration) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
			s.published++
			name := fmt.Sprintf("top%d", s.published)
			answer, text, err := s.app.a.call(s.app.a.http, "POST", "/v1/queues/jobs/messages", []byte(name), api.HeaderPriority, "0")
			if err != nil || answer.StatusCode != 201 {
				s.app.t.Errorf("publish: %v %s %s", err, status(answer), text)
				return
			}
			s.mu.Lock()
			if !s.seen[name] {
				s.top[name] = time.Now()
			}
			s.mu.Unlock()
		}
	}()
	return stopped
}
