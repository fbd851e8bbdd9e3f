package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/config"
)

// sourceLook is the pause between two looks at the sources of the queues. JetStream itself tries a source that it cannot read
// at growing intervals, of up to two minutes.
const sourceLook = 3 * time.Second

// sources watches over the streams that feed queues: what keeps one from being read is a warning as long as it lasts.
type sources struct {
	a    *Agent
	end  context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	problems map[string][]string // by queue; without any there is no entry
}

func newSources(a *Agent) *sources {
	return &sources{a: a, done: make(chan struct{}), problems: map[string][]string{}}
}

func (s *sources) start() {
	var ctx context.Context
	ctx, s.end = context.WithCancel(context.Background())
	go s.run(ctx)
}

// stop ends the watch, and waits for that.
func (s *sources) stop() {
	s.end()
	<-s.done
}

func (s *sources) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(sourceLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, def := range s.a.group.Definitions() {
			s.look(ctx, def)
		}
	}
}

// look brings one queue's problems up to date. While they cannot be found out, they stay as they were.
func (s *sources) look(ctx context.Context, def config.Queue) {
	found, err := s.a.client.SourceProblems(ctx, def)
	if err != nil {
		return // whatever keeps the queue itself from being looked at is told elsewhere
	}
	s.mu.Lock()
	before := s.problems[def.Name]
	if len(found) == 0 {
		delete(s.problems, def.Name)
	} else {
		s.problems[def.Name] = found
	}
	s.mu.Unlock()
	for _, p := range found {
		if !slices.Contains(before, p) {
			s.a.log.Warn("a source of a queue cannot be read", "queue", def.Name, "problem", p)
		}
	}
	if len(before) > 0 && len(found) == 0 {
		s.a.log.Info("the sources of a queue can be read again", "queue", def.Name)
	}
}

// of returns the problems of a queue.
func (s *sources) of(queue string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems[queue]
}

// warnings returns the problems of all queues, in the order of the definitions.
func (s *sources) warnings(defs []config.Queue) []string {
	var list []string
	for _, def := range defs {
		list = append(list, s.of(def.Name)...)
	}
	return list
}
