package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// A session with a thousand in flight ends: all go back at once, in ascending order, each counted.
func TestEndOfASession(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	s := b.OpenSession()
	msgs := messages("q", 1, 1000)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(msgs), func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	var ds []Delivery
	for i := 0; i < 1000; i += 50 {
		ds = append(ds, hand(t, b, o, msgs[i:i+50], time.Minute, s)...)
	}
	b.Written(ds)
	other := hand(t, b, o, messages("q", 5000, 1), time.Minute, nil)
	b.End(s)
	b.End(s)
	for o.slots() < 1000 {
		time.Sleep(time.Millisecond)
	}
	r := f.gaveBack()
	if len(r) != 1000 {
		t.Fatalf("%d given back, want the session's 1000 only", len(r))
	}
	wantAscending(t, r)
	for _, x := range r {
		if x.how.Counts != broker.AnAttempt || !x.how.NotBefore.IsZero() {
			t.Fatalf("%+v: want an attempt, available at once", x.how)
		}
	}
	wantStatus(t, "ack after the end", settle(b, ds[0].Token, "ack"), api.StatusExpired)
	wantStatus(t, "ack outside of the session", settle(b, other[0].Token, "ack"), api.StatusOK)
	if _, ok := b.Session(s.ID()); ok {
		t.Error("an ended session is still found")
	}
	if s.Context().Err() == nil {
		t.Error("the session's context goes on")
	}
}

// What is handed out while the agent goes away, and is lost with its sockets, is no attempt.
func TestALossAfterTheEndIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		s := b.OpenSession()
		b.ReturnAll()
		b.Written(hand(t, b, o, messages("q", 1, 1), time.Minute, s)) // was on its way
		b.End(s)
		waitIdle(t, b)
		if r := f.gaveBack(); len(r) != 1 || r[0].how.Counts != broker.NotAnAttempt {
			t.Errorf("given back: %+v, want one that is no attempt", r)
		}
	})
}

func TestWhatALossCounts(t *testing.T) {
	for _, c := range []struct {
		name    string
		written bool
		lose    func(*Book, *Session, []Delivery)
		counts  broker.Counting
	}{
		{"session lost after the answer", true, func(b *Book, s *Session, _ []Delivery) { b.End(s) }, broker.AnAttempt},
		{"session lost before the answer", false, func(b *Book, s *Session, _ []Delivery) { b.End(s) }, broker.NotAnAttempt},
		{"session lost while the answer was written", false, func(b *Book, s *Session, d []Delivery) { b.End(s); b.Written(d) }, broker.AnAttempt},
		{"session lost while the answer could not be written", false, func(b *Book, s *Session, d []Delivery) { b.End(s); b.Unwritten(d) }, broker.NotAnAttempt},
		{"drained, and lost, while the answer was written", false, func(b *Book, s *Session, d []Delivery) { b.ReturnAll(); b.End(s); b.Written(d) }, broker.NotAnAttempt},
		{"expired after the answer", true, func(*Book, *Session, []Delivery) { time.Sleep(time.Minute) }, broker.AnAttempt},
		{"expired before the answer", false, func(*Book, *Session, []Delivery) { time.Sleep(time.Minute) }, broker.NotAnAttempt},
		{"answer not written", false, func(b *Book, _ *Session, d []Delivery) { b.Unwritten(d) }, broker.NotAnAttempt},
		{"drained after the answer", true, func(b *Book, _ *Session, _ []Delivery) { b.ReturnAll() }, broker.NotAnAttempt},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			s := b.OpenSession()
			msgs := messages("q", 1, 3)
			msgs[0], msgs[2] = msgs[2], msgs[0]
			d := hand(t, b, o, msgs, time.Minute, s)
			if c.written {
				b.Written(d)
			}
			c.lose(b, s, d)
			waitIdle(t, b)
			r := f.gaveBack()
			if len(r) != 3 || o.slots() != 3 || len(o.returned) != 3 {
				t.Fatalf("%s: %d given back, %d slots, %d told", c.name, len(r), o.slots(), len(o.returned))
			}
			wantAscending(t, r)
			for _, x := range r {
				if x.how.Counts != c.counts {
					t.Errorf("%s: counts %v, want %v", c.name, x.how.Counts, c.counts)
				}
			}
			wantStatus(t, c.name, settle(b, d[0].Token, "ack"), api.StatusExpired)
		})
	}
}

// A session that ends while an answer is being written waits for the outcome, for a second at most; what was written before
// goes back at once. Who settles what is in that answer has got it.
func TestASessionEndsWhileAnAnswerIsWritten(t *testing.T) {
	for name, goesOn := range map[string]func(*testing.T, *Book, []Delivery) broker.Counting{
		"nobody ever says": func(_ *testing.T, _ *Book, _ []Delivery) broker.Counting {
			time.Sleep(outcomeGrace)
			return broker.NotAnAttempt
		},
		"its app says": func(t *testing.T, b *Book, late []Delivery) broker.Counting {
			wantStatus(t, "ack", settle(b, late[0].Token, "ack"), api.StatusExpired)
			b.Written(late)
			return broker.AnAttempt
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBroker{}
				b, o := New(f, fixed{}), &fakeOwner{}
				defer b.Close()
				s := b.OpenSession()
				late := hand(t, b, o, messages("q", 1, 1), time.Minute, s)
				b.Written(hand(t, b, o, messages("q", 2, 2), time.Minute, s))
				b.End(s)
				synctest.Wait()
				if r := f.gaveBack(); len(r) != 2 || r[0].m.Seq != 2 || r[1].m.Seq != 3 {
					t.Fatalf("given back at once: %s, want 2 and 3", describe(r))
				}
				counts := goesOn(t, b, late)
				synctest.Wait()
				r := f.gaveBack()
				if len(r) != 3 || r[2].m.Seq != 1 || r[2].how.Counts != counts || o.slots() != 3 {
					t.Errorf("given back: %s with %d slots, want 1 too, counts %v", describe(r), o.slots(), counts)
				}
				if n := b.Stats().Live; n != 0 {
					t.Errorf("%d are still live", n)
				}
			})
		})
	}
}

func TestHandToAnEndedSession(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	s := b.OpenConnection()
	b.End(s)
	if _, err := b.Hand(o, messages("q", 1, 2), time.Minute, s); !errors.Is(err, ErrSessionEnded) {
		t.Fatalf("Hand: %v", err)
	}
	waitIdle(t, b)
	r := f.gaveBack()
	if len(r) != 2 || r[0].how.Counts != broker.NotAnAttempt || o.slots() != 2 || len(o.returned) != 2 {
		t.Errorf("given back %s, %d slots, %d told", describe(r), o.slots(), len(o.returned))
	}
	b.Close()
	b.Close()
	if _, err := b.Hand(o, messages("q", 3, 2), time.Minute, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Hand after Close: %v", err)
	}
	if o.slots() != 4 || b.InFlight() != 0 {
		t.Errorf("%d slots, %d in flight after Close", o.slots(), b.InFlight())
	}
	if s := b.OpenSession(); s.Context().Err() == nil {
		t.Error("a closed book opens sessions")
	}
}

// An ack is being carried out when the session ends: it is completed; only without an outcome the message goes back.
func TestAnAckOutlivesItsSession(t *testing.T) {
	for _, c := range []struct {
		outcome broker.Finish
		back    int
		status  api.Status
	}{{broker.Finished, 0, api.StatusAlreadySettled}, {broker.FinishUnknown, 1, api.StatusExpired}} {
		for _, how := range []string{"end", "drain"} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBroker{manual: true}
				b, o := New(f, fixed{}), &fakeOwner{}
				defer b.Close()
				s := b.OpenSession()
				d := hand(t, b, o, messages("q", 1, 1), time.Hour, s)
				b.Written(d)
				go settle(b, d[0].Token, "ack")
				synctest.Wait()
				if how == "end" {
					b.End(s)
				} else {
					b.ReturnAll()
				}
				synctest.Wait()
				if len(f.gaveBack()) != 0 {
					t.Fatal("given back under its ack")
				}
				f.finish(c.outcome)
				synctest.Wait()
				r := f.gaveBack()
				if len(r) != c.back {
					t.Fatalf("%s: given back %s", how, describe(r))
				}
				if len(r) == 1 && (r[0].how.Counts == broker.AnAttempt) != (how == "end") {
					t.Errorf("%s: counts %v", how, r[0].how.Counts)
				}
				f.giveBack(nil)
				waitIdle(t, b)
				wantStatus(t, "afterwards", settle(b, d[0].Token, "ack"), c.status)
				if o.slots() != 1 {
					t.Errorf("%d slots, want 1", o.slots())
				}
			})
		}
	}
}

// A nack fails after its session ended: nobody would ask again, so it is over.
func TestANackThatFailsAfterItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{manual: true}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		s := b.OpenSession()
		d := hand(t, b, o, messages("q", 1, 1), time.Hour, s)
		var got api.Status
		go func() { got = settle(b, d[0].Token, "nack") }()
		synctest.Wait()
		b.End(s)
		f.giveBack(errors.New("away"))
		waitIdle(t, b)
		synctest.Wait()
		wantStatus(t, "nack", got, api.StatusUnavailable)
		wantStatus(t, "afterwards", settle(b, d[0].Token, "ack"), api.StatusExpired)
		if o.slots() != 1 || len(o.returned) != 1 {
			t.Errorf("%d slots, %d told", o.slots(), len(o.returned))
		}
	})
}

func TestEventsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
		defer b.Close()
		s, silent := b.OpenSession(), b.OpenConnection()
		if got, ok := b.Session(s.ID()); !ok || got != s || len(s.ID()) < 20 {
			t.Fatalf("session %q is not found", s.ID())
		}
		if _, ok := b.Session(""); ok {
			t.Error("a connection's session can be named")
		}
		d := hand(t, b, o, messages("q", 1, 1), time.Second, s)
		hand(t, b, o, messages("q", 2, 1), time.Second, silent)
		time.Sleep(time.Second)
		<-s.Signal()
		got := b.Events(s)
		if len(got) != 1 || got[0] != (api.Event{Event: "revoked", Token: d[0].Token, Reason: "expired"}) {
			t.Errorf("events %+v", got)
		}
		if len(b.Events(s)) != 0 || len(b.Events(silent)) != 0 {
			t.Error("an event came twice, or to nobody")
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
		defer b.Close()
		s := b.OpenSession()
		d := hand(t, b, o, messages("q", 1, maxEvents+10), time.Second, s)
		time.Sleep(time.Second)
		waitIdle(t, b)
		got := b.Events(s)
		if len(got) != maxEvents {
			t.Fatalf("%d events are kept, want the latest %d", len(got), maxEvents)
		}
		tokens := map[string]bool{}
		for _, e := range got {
			tokens[e.Token] = true
		}
		if len(tokens) != maxEvents || !tokens[got[len(got)-1].Token] || len(d) != maxEvents+10 {
			t.Error("events were doubled")
		}
	})
}

func TestUnwrittenLeavesWhatWasSettled(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	d := hand(t, b, o, messages("q", 1, 3), time.Minute, nil)
	wantStatus(t, "ack", settle(b, d[1].Token, "ack"), api.StatusOK)
	b.Unwritten(d)
	b.Unwritten(d)
	waitIdle(t, b)
	if r := f.gaveBack(); len(r) != 2 || o.slots() != 3 {
		t.Errorf("given back %s, %d slots", describe(r), o.slots())
	}
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{manual: true}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		fresh := func() *broker.Message { return messages("q", 1, 1)[0] }
		if b.Refresh(fresh()) {
			t.Error("a message that was never handed out is live")
		}
		d := hand(t, b, o, messages("q", 1, 1), time.Hour, nil)
		if b.Refresh(messages("other", 1, 1)[0]) {
			t.Error("the same sequence of another queue is live")
		}
		second := fresh()
		if !b.Refresh(second) {
			t.Fatal("a live message is not recognised")
		}
		// Taken twice before the book knew it: still one delivery, and the other handle goes back uncounted.
		third := fresh()
		if again := hand(t, b, o, []*broker.Message{third}, time.Hour, nil); len(again) != 0 {
			t.Errorf("handed out a second time: %v", again)
		}
		synctest.Wait()
		if r := f.gaveBack(); len(r) != 1 || r[0].m != third || r[0].how.Counts != broker.NotAnAttempt {
			t.Errorf("given back %s, want the double", describe(r))
		}
		f.giveBack(nil)
		if o.slots() != 1 || b.InFlight() != 1 {
			t.Errorf("%d slots, %d in flight after a double", o.slots(), b.InFlight())
		}
		if !b.Refresh(third) {
			t.Fatal("the double is not recognised when it comes again")
		}
		go settle(b, d[0].Token, "ack")
		synctest.Wait()
		if f.finishing[0] != third {
			t.Error("the ack used the old handle")
		}
		fourth := fresh()
		if !b.Refresh(fourth) {
			t.Error("a message that is being finished is not recognised")
		}
		f.finish(broker.FinishUnknown)
		synctest.Wait()
		go settle(b, d[0].Token, "nack", "0s")
		synctest.Wait()
		if r := f.gaveBack(); len(r) != 2 || r[1].m != fourth {
			t.Error("the nack used an old handle")
		}
		// Given back, though the outcome is not here yet: when it comes again, it is new work.
		if b.Refresh(fresh()) {
			t.Error("a message that was given back is live")
		}
		again := hand(t, b, o, []*broker.Message{fresh()}, time.Hour, nil)
		if len(again) != 1 {
			t.Fatal("not handed out again")
		}
		f.giveBack(nil)
		synctest.Wait()
		if !b.Refresh(fresh()) {
			t.Error("the outcome of the first delivery ended the second")
		}
		if o.slots() != 2 || b.InFlight() != 1 {
			t.Errorf("%d slots, %d in flight", o.slots(), b.InFlight())
		}
	})
}

// A nack fails, but its message came again all the same and was handed out: the first delivery is over.
func TestANackThatFailsAfterItsMessageCameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{manual: true}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		first := hand(t, b, o, messages("q", 1, 1), time.Hour, nil)
		var got api.Status
		go func() { got = settle(b, first[0].Token, "nack") }()
		synctest.Wait()
		second := hand(t, b, o, messages("q", 1, 1), time.Hour, nil)
		f.giveBack(errors.New("away"))
		synctest.Wait()
		wantStatus(t, "nack", got, api.StatusUnavailable)
		wantStatus(t, "first, again", settle(b, first[0].Token, "nack"), api.StatusExpired)
		if o.slots() != 1 || b.InFlight() != 1 || len(second) != 1 {
			t.Errorf("%d slots, %d in flight", o.slots(), b.InFlight())
		}
	})
}

func TestWaitIdleIsAfterTheOwner(t *testing.T) {
	b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
	defer b.Close()
	for i := range 300 {
		d := hand(t, b, o, messages("q", uint64(i+1), 1), time.Minute, nil)
		go settle(b, d[0].Token, "ack")
		if err := b.WaitIdle(context.Background()); err != nil {
			t.Fatal(err)
		}
		if o.slots() != i+1 {
			t.Fatalf("idle, and %d of %d slots released", o.slots(), i+1)
		}
	}
}
