package socket

import (
	"slices"
	"strings"
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

// An answer that is written in pieces, to an app that reads slowly: each piece is looked at when its turn has come. What is
// written already stays, and what has nothing to do with the tenure is written all the same.
func TestEachPieceIsWrittenWithTrust(t *testing.T) {
	big := func(seq uint64) *broker.Message {
		m := message(seq)
		m.Data = []byte(strings.Repeat("x", wholeAnswer))
		return m
	}
	for name, tt := range map[string]struct {
		messages []*broker.Message
		want     []uint64
		back     []uint64
	}{
		// Trust is asked for at the hand-over, before the first piece, and before its own.
		"in the last piece":      {[]*broker.Message{big(1), message(2), fenced(3, 2), message(4)}, []uint64{1, 2, 4}, []uint64{3}},
		"in the middle":          {[]*broker.Message{big(1), fenced(2, 2), big(3), message(4)}, []uint64{1, 3, 4}, []uint64{2}},
		"trusted in each":        {[]*broker.Message{big(1), fenced(2, 3), big(3), message(4)}, []uint64{1, 2, 3, 4}, nil},
		"it was written already": {[]*broker.Message{fenced(1, 2), big(2), big(3), message(4)}, []uint64{1, 2, 3, 4}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(tt.messages...)
			var got []uint64
			for _, d := range lines(t, r.call("POST", pullPath+"?max=9&wait=5s", "")) {
				got = append(got, d.Seq)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("written: %v, want %v", got, tt.want)
			}
			eventually(t, "the rest went back", func() bool { return len(r.gaveBack()) == len(tt.back) })
			for i, back := range r.gaveBack() {
				if back.seq != tt.back[i] || back.counts != broker.NotAnAttempt {
					t.Errorf("given back: %+v", back)
				}
			}
		})
	}
}
