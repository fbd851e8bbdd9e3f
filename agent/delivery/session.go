package delivery

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// maxEvents bounds what a session keeps for a client that does not read. Beyond it the oldest events are dropped.
const maxEvents = 4096

// outcomeGrace is how long the end of a session waits for an answer that is being written. It takes microseconds, unless
// the app has stopped reading.
const outcomeGrace = time.Second

const sessionEnded = "the session ended"

// Session is the time for which a connection of an app is held open. What it holds when it ends is given back at once.
type Session struct {
	id     string
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	signal chan struct{} // written by holders of the book's lock, read by whoever reads Events

	// Guarded by the book's lock.
	ended  bool
	held   map[uint64]*entry
	events []api.Event
}

// ID returns the session's name, which cannot be guessed; "" for a connection's own.
func (s *Session) ID() string { return s.id }

// Context ends when the session does.
func (s *Session) Context() context.Context { return s.ctx }

// Signal receives when there are new events to take.
func (s *Session) Signal() <-chan struct{} { return s.signal }

// tellLocked adds an event. A connection's own session has nobody who would read it.
func (s *Session) tellLocked(e api.Event) {
	if s.id == "" {
		return
	}
	if len(s.events) >= maxEvents {
		s.events = append(s.events[:0], s.events[len(s.events)-maxEvents+1:]...)
	}
	s.events = append(s.events, e)
	wake(s.signal)
}

// OpenSession begins a session that pulls can name. It lasts until End.
func (b *Book) OpenSession() *Session { return b.open(rand.Text()) }

// OpenConnection begins a session without a name, for the pulls of one connection. It lasts until End.
func (b *Book) OpenConnection() *Session { return b.open("") }

func (b *Book) open(id string) *Session {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{id: id, ctx: ctx, cancel: cancel, signal: make(chan struct{}, 1), held: make(map[uint64]*entry)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.ended = true
		cancel()
		return s
	}
	if id != "" {
		b.sessions[id] = s
	}
	return s
}

// Session returns the session with this name, as long as it lasts.
func (b *Book) Session(id string) (*Session, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.sessions[id]
	return s, ok
}

// Busy tells whether something that was delivered to the session is not settled yet.
func (b *Book) Busy(s *Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(s.held) > 0
}

// Events takes what the session has to tell, oldest first.
func (b *Book) Events(s *Session) []api.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := s.events
	s.events = nil
	return events
}

// End ends s: everything it holds goes back at once, in ascending order, and counts as an attempt if it was written.
// Settlements that are being carried out are completed. What is in an answer that is being written at this moment goes back
// as soon as it is known whether the app got it, within a second. End can be called twice, and does not block.
func (b *Book) End(s *Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true // before the context ends: who wakes up by it cannot hand out to the session any more
	s.cancel()
	delete(b.sessions, s.id)
	backs := make([]giveBack, 0, len(s.held))
	latest := b.now() + outcomeGrace
	for _, e := range s.held { // sorted below
		switch {
		case e.state != live:
			e.lost = true
		case e.writing:
			e.deadline = min(e.deadline, latest)
			b.deadlines.changed(e)
		default:
			backs = append(backs, b.loseLocked(e, fateExpired, SessionLost, sessionEnded))
		}
	}
	b.armLocked()
	clear(s.held)
	b.counts.SessionsLost += uint64(len(backs))
	b.giveBackLocked(backs)
}
