package leases

import "time"

// Want says that this candidate wants the lease from now on.
func (m *Machine) Want(now time.Time) {
	m.lapse(now)
	m.wanted = true
	m.act(now)
}

// Unwant says that this candidate does not want the lease any more, and hands nothing out: a tenure ends at once and is
// released.
func (m *Machine) Unwant(now time.Time) {
	m.lapse(now)
	m.wanted = false
	if m.tenure.fence != 0 {
		m.end(Released)
	}
	m.act(now)
}

// Tick says that time has passed.
func (m *Machine) Tick(now time.Time) {
	m.lapse(now)
	m.act(now)
}

// Disconnected says that the connection to the store is lost: what was asked may have been carried out or not, nothing is
// handed out, and nothing is asked until it is back.
func (m *Machine) Disconnected(now time.Time) {
	m.lapse(now)
	m.connected = false
	m.tenure.open = false
	m.reading = read{}
	if m.writing.request != 0 {
		m.doubt(now)
	}
	m.act(now)
}

// Connected says that the connection is back. The record is read before anything else.
func (m *Machine) Connected(now time.Time) {
	m.lapse(now)
	if !m.connected {
		m.connected = true
		m.reads.reset()
		m.writes.reset()
		m.serial++ // reads from before do not count
		m.resolve = m.serial
		if !m.view.behind.IsZero() {
			m.view.behind = now // the watch has only now a chance to catch up
		}
	}
	m.act(now)
}

// stand claims the lease for a standby when that is due.
func (m *Machine) stand(now time.Time) {
	if !m.usable() {
		return
	}
	if at := m.claimAt(); now.Before(at) {
		m.alarm(at)
		return
	}
	m.claim(now)
}

// claimAt is when this standby may claim what it sees.
func (m *Machine) claimAt() time.Time {
	v := &m.view
	at := v.since
	if v.heldUntil.After(at) {
		at = v.heldUntil
	}
	r := v.seen.Record
	switch {
	case r.Successor == m.cfg.ID:
	case r.Successor != "" || m.outranked(r):
		at = at.Add(m.cfg.giveWay() + v.spread)
	case len(m.peers) > 0:
		at = at.Add(v.spread)
	}
	return at
}

// claim tries to begin a tenure at what is seen.
func (m *Machine) claim(now time.Time) {
	m.write(now, Record{Holder: m.cfg.ID, Nonce: m.nonce(), TTL: m.cfg.TTL, Term: m.view.seen.Record.Term + 1})
}

// usable says whether the bucket's revisions can be fences, as far as is known.
func (m *Machine) usable() bool {
	if r := m.view.seen.Revision; r != 0 && r < MinRevision {
		m.problem = ErrLowRevision
	}
	return m.problem == nil
}

// renew keeps a tenure.
func (m *Machine) renew(now time.Time) {
	t := &m.tenure
	if now.Before(t.renewAt) {
		m.alarm(t.renewAt)
		return
	}
	m.write(now, Record{Holder: m.cfg.ID, Nonce: t.nonce, Fence: t.fence, TTL: m.cfg.TTL, Term: t.term})
}
