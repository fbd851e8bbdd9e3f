package leases

import (
	"errors"
	"time"
)

// looked takes in what a read has shown.
func (m *Machine) looked(now time.Time, request uint64, s Seen) {
	v := &m.view
	switch {
	case s.Revision == 0:
		if request <= v.news {
			return // asked before something newer was learned
		}
		if !v.known || v.seen.Revision != 0 {
			m.lost(now)
		}
	case s.Revision > v.top, s.Revision == v.top && v.seen.Revision == 0: // the latter: the bucket is there after all
		m.news(now, s)
		m.pollAt = now.Add(m.nearly(m.cfg.fastPoll())) // the watch should have shown it
		v.owe(now)
	case errors.Is(m.problem, ErrFellBack):
		v.seen = s
	case s.Revision < v.top:
		m.stale(now, s)
		return
	}
	v.fallen = time.Time{}
	if errors.Is(m.problem, ErrFellBack) && (s.Revision == 0 || s.Revision >= v.top) {
		m.problem = nil
	}
	if request > m.resolve {
		m.resolve = 0
	}
	if m.resolve == 0 && m.tenure.fence != 0 && s.Record.Nonce == m.tenure.nonce && s.Record.Holder != "" {
		m.tenure.open = m.connected
	}
	if !now.Before(m.pollAt) {
		m.pollAt = now.Add(m.nearly(m.cfg.fastPoll()))
	}
}

// stale deals with a read that shows less than is known: usually an old leader answered, and the read is repeated. If
// that goes on for a TTL, the bucket was replaced by one with lower revisions.
func (m *Machine) stale(now time.Time, s Seen) {
	v := &m.view
	m.reads.failed(now, m)
	if m.reads.failures == 1 {
		m.reads.failed(now, m) // not at once
	}
	if v.fallen.IsZero() {
		v.fallen = now
	}
	if now.Sub(v.fallen) >= m.cfg.TTL {
		m.problem = ErrFellBack
		v.known, v.seen, v.since = true, s, now
		m.resolve = 0
		if m.tenure.fence != 0 {
			m.end(Vanished)
		}
	}
}

// news takes in a record with a higher revision than all before.
func (m *Machine) news(now time.Time, s Seen) {
	v := &m.view
	if s.Record.Nonce != v.seen.Record.Nonce {
		v.tenureSince = now
	}
	v.known, v.seen, v.since, v.news, v.top = true, s, now, m.serial, s.Revision
	v.fallen = time.Time{}
	v.spread = time.Duration(m.jitter.Int64N(int64(m.cfg.spread())))
	m.writes.reset()
	r := s.Record
	v.longest = max(v.longest, r.TTL)
	if !errors.Is(m.problem, ErrLowRevision) || s.Revision >= MinRevision {
		m.problem = nil
	}
	m.declare(r.Holder)
	w, mine := m.landed(s)
	switch {
	case r.Absent():
		m.vanished(now)
	case r.Released() || r.boot() == m.cfg.Boot || m.ended(r):
		v.heldUntil = time.Time{}
	default:
		v.heldUntil = now.Add(m.ttlOf(r))
	}
	if r.Holder == "" || r.boot() != m.cfg.Boot {
		m.releasing = ""
	}
	switch {
	case m.tenure.fence != 0 && r.Holder != "" && r.Nonce == m.tenure.nonce:
		if mine {
			m.extend(w)
			m.tenure.open = m.connected
		}
	case m.tenure.fence != 0:
		m.end(endedBy(r))
	}
	if mine && m.tenure.fence == 0 && r.Holder != "" && r.Fence == 0 {
		m.claimed(now, w, s.Revision)
	}
	m.pollAt = now.Add(m.ttlOf(r)/5 + m.nearly(m.ttlOf(r)/100))
}

// owe notes that the watch has to show what is known now.
func (v *view) owe(now time.Time) {
	if v.behind.IsZero() && v.watched < v.seen.Revision {
		v.behind = now
	}
}

func endedBy(r Record) Reason {
	if r.Absent() {
		return Vanished
	}
	return Replaced
}

// landed finds out which write of ours made a record, and forgets those that can never be carried out any more.
func (m *Machine) landed(s Seen) (w write, ok bool) {
	kept := m.unsure[:0]
	for _, u := range m.unsure {
		switch {
		case u.record == s.Record:
			w, ok = u, true
		case u.expected >= s.Revision: // it would replace this one
			kept = append(kept, u)
		}
	}
	m.unsure = kept
	if f := m.writing; f.request != 0 && f.record == s.Record {
		w, ok = f, true // the watch was faster than the answer
		m.writing = write{}
		m.resolve = 0
	}
	return w, ok
}

// claimed begins a tenure with a claim of ours that was carried out, if it is still good for anything.
func (m *Machine) claimed(now time.Time, w write, revision uint64) {
	if revision < MinRevision {
		m.problem = ErrLowRevision
		return
	}
	if m.wanted && now.Before(w.sent.Add(m.cfg.trust())) {
		m.begin(now, w, revision)
	}
}

// vanished takes in that a record was deleted. Whoever held it last, seen or not, may not know that yet, and is waited
// for; unless it was this candidate.
func (m *Machine) vanished(now time.Time) {
	v := &m.view
	switch wait := now.Add(max(m.cfg.TTL, v.longest)); {
	case m.tenure.fence != 0:
		v.heldUntil = time.Time{}
	case v.heldUntil.Before(wait):
		v.heldUntil = wait
	}
}

// lost takes in that there is no record, nor a mark of one.
func (m *Machine) lost(now time.Time) {
	v := &m.view
	if v.seen.Revision != 0 {
		m.vanished(now)
	}
	v.known, v.seen, v.since, v.news = true, Seen{}, now, m.serial
	v.spread = time.Duration(m.jitter.Int64N(int64(m.cfg.spread())))
	m.releasing = ""
	if errors.Is(m.problem, ErrLowRevision) {
		m.problem = nil
	}
	if m.tenure.fence != 0 {
		m.end(Vanished)
	}
}

// gone takes in that a read found no bucket.
func (m *Machine) gone(now time.Time) {
	m.lost(now)
	m.view.known = false
	m.problem = ErrGone
	m.resolve = 0
}

// Watched takes in what the watch has shown. It may be late or repeated.
func (m *Machine) Watched(now time.Time, s Seen) {
	m.lapse(now)
	v := &m.view
	v.watched = max(v.watched, s.Revision)
	if s.Revision > v.top {
		m.news(now, s)
	}
	if v.watched >= v.seen.Revision {
		v.behind = time.Time{}
	}
	m.act(now)
}

// Gone says that the bucket was deleted. It may be late: nothing is handed out any more, and the record is read.
func (m *Machine) Gone(now time.Time) {
	m.lapse(now)
	m.tenure.open = false
	m.serial++
	m.resolve = m.serial
	m.act(now)
}

// watchdog asks for a new watch when the present one should have shown something long ago.
func (m *Machine) watchdog(now time.Time) {
	v := &m.view
	if v.behind.IsZero() || !m.connected || !m.wanted {
		return
	}
	if at := v.behind.Add(m.cfg.patience()); now.Before(at) {
		m.alarm(at)
		return
	}
	v.behind = now
	m.out = append(m.out, Action{Kind: Rewatch})
	m.alarm(now.Add(m.cfg.patience()))
}

// ttlOf is for how long the holder of a record may go on without renewal.
func (m *Machine) ttlOf(r Record) time.Duration {
	if r.TTL <= 0 {
		return m.cfg.TTL
	}
	return r.TTL
}

// ended says that the run that wrote a record is known to have ended.
func (m *Machine) ended(r Record) bool {
	for _, boot := range m.cfg.Ended {
		if r.Nonce != "" && r.boot() == boot {
			return true
		}
	}
	return false
}

// nearly draws a time between half of d and d.
func (m *Machine) nearly(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.jitter.Int64N(int64(d/2)+1))
}
