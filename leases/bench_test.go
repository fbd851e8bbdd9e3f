package leases

import (
	"testing"
	"time"
)

func BenchmarkTrusted(b *testing.B) {
	r, err := NewRunner(nil, Config{ID: "a", Boot: "b"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.grant.Store(&Grant{Fence: MinRevision, Until: time.Now().Add(time.Hour), Open: true})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Trusted(time.Now()); !ok {
			b.Fatal("not trusted")
		}
	}
}

// BenchmarkRenewal is everything that a machine does for one renewal.
func BenchmarkRenewal(b *testing.B) {
	m := New(Config{ID: "me", Boot: "boot"}, still{})
	now := clockTime(1e15, 0)
	m.Want(now)
	m.ReadDone(now, m.Actions()[0].Request, Seen{})
	revision := uint64(MinRevision)
	b.ReportAllocs()
	for b.Loop() {
		acts := m.Actions()
		revision++
		m.Written(now, acts[len(acts)-1].Request, revision)
		m.Watched(now, m.view.seen)
		m.Actions()
		now = m.Deadline()
		m.Tick(now)
	}
	if m.Grant().Fence != MinRevision+1 {
		b.Fatal("the tenure did not last")
	}
}
