package delivery

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// grant is a tenure's right, as a test wants it: trusted and held, held only, or over.
type grant struct {
	fence            uint64
	until            time.Time
	distrusted, over atomic.Bool
}

func (g *grant) Trusted(time.Time) (uint64, bool) {
	return g.fence, !g.distrusted.Load() && !g.over.Load()
}
func (g *grant) Held(time.Time) (uint64, bool) { return g.fence, !g.over.Load() }
func (g *grant) ValidUntil() time.Time         { return g.until }

// messages returns n messages of a tenure.
func (g *grant) messages(first uint64, n int) []*broker.Message {
	lane := &broker.Lane{Layout: broker.Layout{Queue: "q", Single: true, Tenure: broker.NewTenure(g.fence, g)}}
	msgs := messages("q", first, n)
	for _, m := range msgs {
		m.Lane = lane
	}
	return msgs
}

// What was handed out in a tenure that is over is told to its app, not settled, and not counted as an attempt here; what
// is of another tenure, or of none, stays.
func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		old, now := &grant{fence: 5}, &grant{fence: 6}
		s := b.OpenSession()
		lost := hand(t, b, o, old.messages(1, 2), time.Minute, s)
		b.Written(lost)
		kept := append(hand(t, b, o, now.messages(11, 1), time.Minute, s), hand(t, b, o, messages("plain", 21, 1), time.Minute, nil)...)
		old.over.Store(true)
		if n := b.Revoke(); n != 2 {
			t.Errorf("%d revoked, want 2", n)
		}
		var told []string
		for _, e := range b.Events(s) {
			if e.Event != "revoked" || e.Reason != "lease_lost" {
				t.Errorf("event %+v", e)
			}
			told = append(told, e.Token)
		}
		slices.Sort(told)
		if want := []string{lost[0].Token, lost[1].Token}; !slices.Equal(told, want) {
			t.Errorf("told of %v, want %v", told, want)
		}
		for _, word := range []string{"ack", "nack", "reject", "extend"} {
			wantStatus(t, word+" of a lost tenure", settle(b, lost[0].Token, word), api.StatusLeaseLost)
		}
		for _, d := range kept {
			wantStatus(t, "ack of what is held", settle(b, d.Token, "ack"), api.StatusOK)
		}
		waitIdle(t, b)
		for _, r := range f.gaveBack() {
			if r.how.Counts != broker.NotAnAttempt {
				t.Errorf("%+v counts as an attempt", r)
			}
		}
		if got := b.Stats(); got.Revoked != 2 || got.InFlight != 0 || o.slots() != 4 {
			t.Errorf("%d revoked, %d in flight, %d slots released", got.Revoked, got.InFlight, o.slots())
		}
	})
}

// An ack that comes after the tenure, and before anybody said so, is refused all the same: that is what a process finds
// that was paused past its lease.
func TestLateSettlementIsRefused(t *testing.T) {
	for _, word := range []string{"ack", "nack", "reject", "extend"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			g := &grant{fence: 5}
			d := hand(t, b, o, g.messages(1, 1), time.Minute, nil)
			g.over.Store(true)
			wantStatus(t, word, settle(b, d[0].Token, word), api.StatusLeaseLost)
			waitIdle(t, b)
			if len(f.finishing) > 0 || o.slots() != 1 {
				t.Errorf("%s: %d deletes, %d slots", word, len(f.finishing), o.slots())
			}
			if word != "extend" && o.endings[0] != broker.Unused {
				t.Errorf("%s: ended as %v", word, o.endings[0])
			}
		})
	}
}

// While a tenure is held and not trusted, as after a lost connection, what was handed out may be settled.
func TestHeldIsEnoughToSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
		defer b.Close()
		g := &grant{fence: 5}
		d := hand(t, b, o, g.messages(1, 1), time.Minute, nil)
		g.distrusted.Store(true)
		wantStatus(t, "ack", settle(b, d[0].Token, "ack"), api.StatusOK)
	})
}

// The tenure ends while a settlement is carried out: a delete that is confirmed counts; one without an answer does not.
func TestTenureEndsWithASettlementUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		outcome broker.Finish
		want    api.Status
	}{
		"deleted": {broker.Finished, api.StatusOK},
		"unknown": {broker.FinishUnknown, api.StatusLeaseLost},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{manual: true}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			g := &grant{fence: 5}
			d := hand(t, b, o, g.messages(1, 1), time.Minute, nil)
			answer := make(chan api.Status, 1)
			go func() { answer <- settle(b, d[0].Token, "ack") }()
			synctest.Wait()
			g.over.Store(true)
			b.Revoke()
			f.finish(c.outcome)
			wantStatus(t, name, <-answer, c.want)
			synctest.Wait()
			for f.giveBack(broker.ErrTenureOver) {
			}
			waitIdle(t, b)
			if o.slots() != 1 {
				t.Errorf("%s: %d slots released", name, o.slots())
			}
		})
	}
}

// A nack that reaches JetStream's side too late: the message is the next holder's.
func TestTenureEndsUnderANack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{fail: func(*broker.Message) error { return broker.ErrTenureOver }}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		g := &grant{fence: 5}
		s := b.OpenSession()
		d := hand(t, b, o, g.messages(1, 1), time.Minute, s)
		wantStatus(t, "nack", settle(b, d[0].Token, "nack"), api.StatusLeaseLost)
		waitIdle(t, b)
		if o.slots() != 1 || !o.returned[0].at.IsZero() || len(b.Events(s)) != 1 {
			t.Errorf("%d slots, available %v", o.slots(), o.returned[0].at)
		}
	})
}

// Without trust nothing is handed out: it goes back, and the slot is free.
func TestNothingIsHandedOutWithoutTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		g := &grant{fence: 5}
		g.distrusted.Store(true)
		if d := hand(t, b, o, append(g.messages(1, 1), messages("plain", 2, 1)...), time.Minute, nil); len(d) != 1 || d[0].Message.Queue != "plain" {
			t.Fatalf("%d handed out", len(d))
		}
		for o.slots() < 1 {
			time.Sleep(time.Millisecond)
		}
		if r := f.gaveBack(); len(r) != 1 || r[0].m.Seq != 1 || r[0].how.Counts != broker.NotAnAttempt || b.Stats().Late != 1 {
			t.Errorf("given back %v", describe(r))
		}
	})
}

func TestStale(t *testing.T) {
	b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
	defer b.Close()
	g := &grant{fence: 5}
	ds := append(hand(t, b, o, g.messages(1, 1), time.Minute, nil), hand(t, b, o, messages("plain", 2, 1), time.Minute, nil)...)
	if s := Stale(ds); len(s) > 0 {
		t.Error("stale while trusted")
	}
	g.distrusted.Store(true)
	if s := Stale(ds); len(s) != 1 || s[0].Message.Seq != 1 {
		t.Errorf("%d stale, want the one of the tenure", len(s))
	}
}

// What is written to an app may be as long as the first of its tenures lasts, whose end renewals move.
func TestTrustEnds(t *testing.T) {
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	a, b := &grant{fence: 5, until: later}, &grant{fence: 6, until: soon}
	ds := make([]Delivery, 0, 4)
	for _, m := range append(append(a.messages(1, 2), b.messages(3, 1)...), messages("plain", 9, 1)...) {
		ds = append(ds, Delivery{Message: m})
	}
	if TrustEnds(ds[3:]) != nil || TrustEnds(nil) != nil {
		t.Error("what needs no tenure has an end")
	}
	ends := TrustEnds(ds)
	if got := ends(); !got.Equal(soon) {
		t.Errorf("it ends at %v, want %v", got, soon)
	}
	b.until = later.Add(1)
	if got := ends(); !got.Equal(later) {
		t.Errorf("renewed: it ends at %v, want %v", got, later)
	}
	b.over.Store(true)
	if got := ends(); got.After(time.Now()) {
		t.Errorf("of a tenure that is over: %v", got)
	}
}
