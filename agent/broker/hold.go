package broker

import (
	"sync"
	"sync/atomic"
	"time"
)

// hold is an agent's hold on a message, from its arrival until it is finished or returned. The handles of one delivery
// share it, so that it is ended once, whichever of them the message is finished or returned through.
type hold struct {
	holds  *holds
	key    attemptKey
	lane   *Lane
	ended  atomic.Bool
	unsure atomic.Bool             // a delete of it was not answered: a later "not found" means done
	newest atomic.Pointer[Message] // the handle under which JetStream knows the message now
}

// holds are the messages in an agent's hands, and those that just left them for good. Safe for several goroutines. The zero
// value is ready.
type holds struct {
	mu       sync.Mutex
	taken    map[attemptKey]*hold
	finished map[attemptKey]bool
	ring     [finishedMost]attemptKey // of finished, to forget the oldest
	next     int
}

// finishedMost is how many finished messages are remembered: those of the last tenth of a second, at least. A copy of one
// is on its way for a few milliseconds.
const finishedMost = 4096

// renew is for a message that arrives while this agent holds it: it is on its way to an app, or back, and whoever keeps
// the book of what apps have does not know of it. It is true when the lane was made again, or the queue got other lanes:
// then m is a copy, and the newer handle of what is held. It is also true for a copy that was under way while its message
// was finished. What the same lane delivers once more was not heard of for too long, and is new work.
func (h *holds) renew(m *Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := attemptKey{m.Queue, m.Seq}
	held := h.taken[key]
	if held == nil {
		return h.finished[key]
	}
	before := held.newest.Load()
	if !before.Tenure().Held(time.Now()) {
		return false // that tenure is over, and with it what it held
	}
	if m.Lane.consumer() == before.Lane.consumer() && m.delivered > before.delivered {
		return false
	}
	held.newest.Store(m)
	return true
}

// take begins to hold m.
func (h *holds) take(m *Message) {
	if m.hold, m.own = m.own, nil; m.hold == nil {
		m.hold = new(hold)
	}
	m.hold.holds, m.hold.key, m.hold.lane = h, attemptKey{m.Queue, m.Seq}, m.Lane
	m.hold.newest.Store(m)
	m.Lane.InHand.Add(1)
	h.mu.Lock()
	if h.taken == nil {
		h.taken = map[attemptKey]*hold{}
	}
	h.taken[m.hold.key] = m.hold
	h.mu.Unlock()
}

// finish ends the agent's hold on a message that was deleted from the stream.
func (h *holds) finish(m *Message) {
	m.letGo()
	key := attemptKey{m.Queue, m.Seq}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished == nil {
		h.finished = make(map[attemptKey]bool, finishedMost)
	}
	if h.finished[key] {
		return
	}
	delete(h.finished, h.ring[h.next])
	h.ring[h.next], h.finished[key] = key, true
	h.next = (h.next + 1) % finishedMost
}

// has tells whether a message is in the agent's hands.
func (h *holds) has(queue string, seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken[attemptKey{queue, seq}] != nil
}

// letGo ends the agent's hold on a message.
func (m *Message) letGo() {
	if m.hold == nil || !m.hold.ended.CompareAndSwap(false, true) {
		return
	}
	m.hold.lane.InHand.Add(-1)
	h := m.hold.holds
	h.mu.Lock()
	if h.taken[m.hold.key] == m.hold {
		delete(h.taken, m.hold.key)
	}
	h.mu.Unlock()
}

// handle is the message as JetStream knows it now.
func (m *Message) handle() *Message {
	if m.hold == nil {
		return m
	}
	return m.hold.newest.Load()
}

// doubt notes that a delete of the message was not answered.
func (m *Message) doubt() {
	if m.hold != nil {
		m.hold.unsure.Store(true)
	}
}

func (m *Message) doubtful() bool { return m.hold != nil && m.hold.unsure.Load() }

// Replace makes m the newer handle of the delivery that old is a handle of.
func (m *Message) Replace(old *Message) {
	m.hold, m.Attempt = old.hold, old.Attempt
	if m.hold != nil {
		m.hold.newest.Store(m)
	}
}
