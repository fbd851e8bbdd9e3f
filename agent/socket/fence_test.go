package socket

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// grant trusts its tenure as often as it is asked, up to a number of times.
type grant struct{ times atomic.Int64 }

func (g *grant) Trusted(time.Time) (uint64, bool) { return 42, g.times.Add(-1) >= 0 }
func (g *grant) Held(time.Time) (uint64, bool)    { return 42, true }

func fenced(seq uint64, times int64) *broker.Message {
	g := &grant{}
	g.times.Store(times)
	m := message(seq)
	m.Lane = &broker.Lane{Layout: broker.Layout{Queue: m.Queue, Single: true, Tenure: broker.NewTenure(42, g)}}
	return m
}

// Deliveries of a queue with a single active consumer carry its fence, in every format.
func TestFence(t *testing.T) {
	r := newRig(t)
	r.add(fenced(1, 99), message(2))
	ds := lines(t, r.call("POST", pullPath+"?max=2&wait=5s", ""))
	if len(ds) != 2 || ds[0].Fence != 42 || ds[1].Fence != 0 {
		t.Errorf("%d deliveries: %+v", len(ds), ds)
	}
	r.add(fenced(3, 99))
	if a := r.call("POST", "/v1/capsules/work/next?wait=5s", ""); a.Header.Get("Fairlead-Fence") != "42" {
		t.Errorf("fence %q in a header", a.Header.Get("Fairlead-Fence"))
	}
}

// A tenure that ends between the hand-over and the writing: what is of it is not written, and goes back; the rest is.
func TestNothingIsWrittenWithoutTrust(t *testing.T) {
	r := newRig(t)
	r.add(fenced(1, 1), message(2))
	if ds := lines(t, r.call("POST", pullPath+"?max=2&wait=5s", "")); len(ds) != 1 || ds[0].Seq != 2 {
		t.Errorf("written: %+v", ds)
	}
	eventually(t, "it went back", func() bool { return len(r.gaveBack()) == 1 && r.gaveBack()[0].seq == 1 })
	if back := r.gaveBack()[0]; back.counts != broker.NotAnAttempt {
		t.Errorf("it counts as an attempt: %+v", back)
	}
	r.add(fenced(3, 1))
	if a := r.call("POST", "/v1/capsules/work/next?wait=5s", ""); a.StatusCode != 204 {
		t.Errorf("next: %d", a.StatusCode)
	}
	// Never trusted: not even handed out, and the pull goes on to wait.
	r.add(fenced(4, 0), message(5))
	if ds := lines(t, r.call("POST", pullPath+"?wait=5s", "")); len(ds) != 1 || ds[0].Seq != 5 {
		t.Errorf("behind one without trust: %+v", ds)
	}
}
