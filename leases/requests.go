package leases

import (
	"errors"
	"time"
)

// maxUnsure bounds what is remembered of writes without an answer. One that is forgotten and turns up all the same is
// only seen as a record of ours, which is claimed anew or released.
const maxUnsure = 32

// pace spaces requests that fail.
type pace struct {
	failures int
	after    time.Time // no request before
}

// failed sets when to try again: at once after the first failure, then later and later, up to a twentieth of the TTL.
func (p *pace) failed(now time.Time, m *Machine) {
	p.failures++
	if p.failures == 1 {
		return
	}
	most := m.cfg.TTL / 20
	wait := min(m.cfg.TTL/160<<min(p.failures-2, 3), most)
	p.after = now.Add(wait/2 + time.Duration(m.jitter.Int64N(int64(wait/2)+1)))
}

func (p *pace) reset() { *p = pace{} }

// due says whether a request may be sent; if not, it sets the alarm.
func (p *pace) due(now time.Time, m *Machine) bool {
	if now.Before(p.after) {
		m.alarm(p.after)
		return false
	}
	return true
}

// write sends a record at the revision of the view, unless writes have to wait.
func (m *Machine) write(now time.Time, r Record) {
	if !m.writes.due(now, m) {
		return
	}
	m.serial++
	r.Number = m.serial
	m.writing = write{request: m.serial, record: r, expected: m.view.seen.Revision, sent: now}
	m.out = append(m.out, Action{Kind: Write, Request: m.serial, Record: r, Expected: m.writing.expected})
	m.alarm(now.Add(m.cfg.patience()))
}

// doubt gives the write in flight up: whether it is carried out is unknown.
func (m *Machine) doubt(now time.Time) {
	if len(m.unsure) >= maxUnsure {
		m.unsure = append(m.unsure[:0], m.unsure[1:]...)
	}
	m.unsure = append(m.unsure, m.writing)
	m.inDark(now)
}

// inDark forgets the write in flight and asks for the record.
func (m *Machine) inDark(now time.Time) {
	m.writing = write{}
	m.resolve = m.serial
	m.writes.failed(now, m)
}

// fetch reads the record when something is in doubt, when nothing is known yet, and when the watch may have fallen silent.
func (m *Machine) fetch(now time.Time) {
	poll := m.wanted && m.tenure.fence == 0 && m.view.known
	switch {
	case m.resolve != 0 || m.wanted && !m.view.known:
		if m.reading.request > m.resolve {
			return // under way
		}
	case !poll || m.reading.request != 0:
		return
	case now.Before(m.pollAt):
		m.alarm(m.pollAt)
		return
	}
	if !m.reads.due(now, m) {
		return
	}
	m.serial++
	m.reading = read{request: m.serial, sent: now}
	m.out = append(m.out, Action{Kind: Read, Request: m.serial})
	m.alarm(now.Add(m.cfg.patience()))
}

func (m *Machine) readFailed(now time.Time) {
	m.reading = read{}
	m.reads.failed(now, m)
}

// Written says that a write was carried out at a revision. It may come late, and more than once.
func (m *Machine) Written(now time.Time, request, revision uint64) {
	m.lapse(now)
	w, ok := m.find(request)
	if ok {
		if m.writing.request == request {
			m.writing = write{}
		}
		m.stored(now, w, revision)
	}
	m.act(now)
}

// stored takes in that a write was carried out.
func (m *Machine) stored(now time.Time, w write, revision uint64) {
	v := &m.view
	switch {
	case revision > v.top:
		m.unsure = append(m.unsure, w) // where news looks for it
		m.news(now, Seen{revision, w.record})
		m.resolve = 0
		v.owe(now)
	case w.expected == 0 && v.seen.Revision == 0:
		// A new bucket with old numbers. No tenure comes of it, and the record is released.
		m.problem = ErrFellBack
		v.known, v.seen = true, Seen{revision, w.record}
	default:
		m.resolve = m.serial // it was replaced meanwhile: look what by
	}
}

// NotWritten says why a write has no revision.
func (m *Machine) NotWritten(now time.Time, request uint64, why Outcome) {
	m.lapse(now)
	if m.writing.request == request && request != 0 {
		switch why {
		case Refused:
			m.inDark(now)
		case BucketGone:
			m.inDark(now)
			m.tenure.open = false // the read tells
		default:
			m.doubt(now)
		}
	}
	m.act(now)
}

// find returns a write that is in flight or was given up.
func (m *Machine) find(request uint64) (write, bool) {
	if request == 0 {
		return write{}, false
	}
	if m.writing.request == request {
		return m.writing, true
	}
	for i, w := range m.unsure {
		if w.request == request {
			m.unsure = append(m.unsure[:i], m.unsure[i+1:]...)
			return w, true
		}
	}
	return write{}, false
}

// ReadDone gives the record as the leader had it at some moment after the read was asked for.
func (m *Machine) ReadDone(now time.Time, request uint64, s Seen) {
	m.lapse(now)
	if m.reading.request == request && request != 0 {
		m.reading = read{}
		m.reads.reset()
		if errors.Is(m.problem, ErrGone) {
			m.problem = nil
		}
		m.looked(now, request, s)
	}
	m.act(now)
}

// ReadFailed says that a read has no answer; gone: because there is no bucket.
func (m *Machine) ReadFailed(now time.Time, request uint64, why Outcome) {
	m.lapse(now)
	if m.reading.request == request && request != 0 {
		m.readFailed(now)
		if why == BucketGone && request > m.view.news {
			m.gone(now)
		}
	}
	m.act(now)
}
