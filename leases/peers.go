package leases

import "time"

// Peer is another candidate: it is alive and wants the lease.
type Peer struct {
	ID       string
	Priority int // the highest holds
}

// peer is a peer with its history.
type peer struct {
	Peer
	since time.Time // it has had its priority
	// declined counts the times that the lease was handed over to it and it did not take it.
	declined int
}

// maxDeclined bounds how much longer a holder waits each time: 64 times Stay.
const maxDeclined = 6

// Peers says which other candidates there are now, and this candidate's own priority. The slice is not kept.
func (m *Machine) Peers(now time.Time, priority int, others []Peer) {
	m.lapse(now)
	old := m.peers
	m.priority, m.peers = priority, make([]peer, 0, len(others))
	for _, p := range others {
		if p.ID == m.cfg.ID {
			continue
		}
		next := peer{Peer: p, since: now}
		for _, o := range old {
			if o.ID != p.ID {
				continue
			}
			next.declined = o.declined
			if o.Priority == p.Priority {
				next.since = o.since
			}
		}
		m.peers = append(m.peers, next)
	}
	m.act(now)
}

// resetPeers begins a tenure: who comes to stay has to do so while it lasts.
func (m *Machine) resetPeers(now time.Time) {
	for i := range m.peers {
		if m.peers[i].since.Before(now) {
			m.peers[i].since = now
		}
	}
}

// declare notes who holds the lease: it has not declined.
func (m *Machine) declare(holder string) {
	for i := range m.peers {
		if m.peers[i].ID == holder {
			m.peers[i].declined = 0
		}
	}
}

// outranked says that a higher candidate than this one lives. One that has just held the lease, and released it or died,
// does not count.
func (m *Machine) outranked(r Record) bool {
	for _, p := range m.peers {
		if p.Priority > m.priority && p.ID != r.Holder && p.ID != r.Former {
			return true
		}
	}
	return false
}

// yield hands over to a higher candidate that has come to stay.
func (m *Machine) yield(now time.Time) {
	t := &m.tenure
	if !m.connected {
		return // nobody could be told
	}
	best := m.heir(now)
	switch {
	case best == nil && t.yielding:
		t.yielding, t.idle = false, false
		m.out = append(m.out, Action{Kind: Keep})
	case best != nil && !t.yielding:
		t.yielding = true
		m.out = append(m.out, Action{Kind: HandOver})
	case best != nil && t.idle:
		best.declined = min(best.declined+1, maxDeclined)
		m.releasing = best.ID
		m.end(HandedOver)
	}
}

// heir returns the candidate that should hold the lease instead of this one, or nil: the highest of those that have
// stayed, the first by name among equals. It sets the alarm for the next one to have stayed.
func (m *Machine) heir(now time.Time) *peer {
	var best *peer
	for i := range m.peers {
		p := &m.peers[i]
		if p.Priority <= m.priority {
			continue
		}
		if at := p.since.Add(m.cfg.Stay << p.declined); now.Before(at) {
			m.alarm(at)
			continue
		}
		if best == nil || p.Priority > best.Priority || p.Priority == best.Priority && p.ID < best.ID {
			best = p
		}
	}
	return best
}

// Idle says that nothing is in flight, in answer to [HandOver], and that nothing will be handed out before [Keep] or the
// next [Begin].
func (m *Machine) Idle(now time.Time) {
	m.lapse(now)
	if m.tenure.yielding {
		m.tenure.idle = true
	}
	m.act(now)
}
