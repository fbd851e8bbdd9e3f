package leases

import "time"

// Status is what a candidate knows, to be shown.
type Status struct {
	Wanted    bool
	Connected bool
	// Yielding says that the lease is being handed over as soon as nothing is in flight.
	Yielding bool
	// Fence is that of this candidate's own tenure; 0 without one.
	Fence uint64
	// Holder is who holds the lease as far as is known; "" is nobody. HolderFence is the tenure's fence, Term how many there
	// have been, Since when it was first seen here.
	Holder      string
	HolderFence uint64
	Term        uint64
	Since       time.Time
	// Problem says why nobody here can hold the lease: it is [ErrLowRevision], [ErrFellBack], [ErrGone], or nil.
	Problem error
}

// Status returns what the machine knows.
func (m *Machine) Status() Status {
	r := m.view.seen.Record
	s := Status{
		Wanted: m.wanted, Connected: m.connected, Yielding: m.tenure.yielding, Fence: m.tenure.fence,
		Holder: r.Holder, Term: r.Term, Since: m.view.tenureSince, Problem: m.problem,
	}
	switch {
	case r.Holder == "":
		s.Since = time.Time{}
	case r.Fence != 0:
		s.HolderFence = r.Fence
	default:
		s.HolderFence = m.view.seen.Revision
	}
	return s
}
