package worker

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/agent/client"
)

// sessions keeps one session open, and opens another when it is lost.
type sessions struct {
	worker *Worker
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	current *client.Session // nil while there is none
	changed chan struct{}   // closed and replaced when current changes
}

// openSessions opens the first session, and fails if it cannot.
func openSessions(ctx context.Context, w *Worker) (*sessions, error) {
	first, err := w.options.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	s := &sessions{worker: w, ended: make(chan struct{}), changed: make(chan struct{}), current: first}
	s.ctx, s.cancel = context.WithCancel(ctx)
	go s.keep(first)
	return s, nil
}

// keep reads the events of one session after the other until ctx ends.
func (s *sessions) keep(current *client.Session) {
	defer close(s.ended)
	for {
		s.read(current)
		current.Close()
		s.set(nil)
		pause := pauseFirst
		for {
			if s.ctx.Err() != nil {
				return
			}
			var err error
			if current, err = s.worker.options.Client.Session(s.ctx); err == nil {
				break
			}
			if s.ctx.Err() != nil {
				return
			}
			if !client.IsRetryable(err) {
				s.worker.stop(err)
			}
			s.worker.answers(err)
			pause = sleep(s.ctx, pause)
		}
		s.worker.answers(nil)
		s.set(current)
	}
}

// read handles the events of a session until it ends.
func (s *sessions) read(current *client.Session) {
	for {
		e, err := current.Next()
		switch {
		case err != nil:
			return // whoever asks next notices what it is about
		case e.Event == "revoked":
			s.worker.revoke(e.Token, e.Reason)
		case e.Event == "draining":
			s.worker.logf("the agent is draining: it hands out nothing more")
		}
	}
}

func (s *sessions) set(current *client.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns the id of the session, and blocks while there is none.
func (s *sessions) wait(ctx context.Context) (string, error) {
	for {
		s.mu.Lock()
		current, changed := s.current, s.changed
		s.mu.Unlock()
		if current != nil {
			return current.ID, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// distrust ends the session called id, of which the agent says that it does not know it, so that another is opened.
func (s *sessions) distrust(id string) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current != nil && current.ID == id {
		current.Close()
	}
}

func (s *sessions) close() {
	s.cancel()
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current != nil {
		current.Close()
	}
	<-s.ended
}
