package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

func TestAckFinishesOnce(t *testing.T) {
	for _, c := range []struct {
		name          string
		outcome       broker.Finish
		first, second api.Status
	}{
		{"deleted by this ack", broker.Finished, api.StatusOK, api.StatusAlreadySettled},
		{"deleted by somebody else", broker.AlreadyFinished, api.StatusAlreadySettled, api.StatusAlreadySettled},
		{"unknown, ask again", broker.FinishUnknown, api.StatusUnavailable, api.StatusUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeBroker{outcome: func(*broker.Message) broker.Finish { return c.outcome }}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			d := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
			b.Written(d)
			wantStatus(t, "first ack", settle(b, d[0].Token, "ack"), c.first)
			wantStatus(t, "second ack", settle(b, d[0].Token, "ack"), c.second)
			if c.outcome == broker.FinishUnknown {
				if o.slots() != 0 || b.InFlight() != 1 {
					t.Errorf("%d slots released, %d in flight: the outcome is not known", o.slots(), b.InFlight())
				}
				f.mu.Lock()
				f.outcome = nil
				f.mu.Unlock()
				wantStatus(t, "asked again", settle(b, d[0].Token, "ack"), api.StatusOK)
			}
			waitIdle(t, b)
			if o.slots() != 1 {
				t.Errorf("%d slots released, want 1", o.slots())
			}
		})
	}
}

func TestConcurrentAcksOfOneToken(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	for round := range 200 {
		d := hand(t, b, o, messages("q", uint64(round+1), 1), time.Minute, nil)
		var wg sync.WaitGroup
		got := make([]api.Status, 8)
		for i := range got {
			wg.Go(func() { got[i] = settle(b, d[0].Token, "ack") })
		}
		wg.Wait()
		slices.Sort(got)
		want := append(slices.Repeat([]api.Status{api.StatusAlreadySettled}, 7), api.StatusOK)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want exactly one ok", got)
		}
	}
	waitIdle(t, b)
	if o.slots() != 200 || len(f.finishing) != 200 {
		t.Errorf("%d slots released, %d deletes, want 200 each", o.slots(), len(f.finishing))
	}
}

// The second ack waits for what becomes of the first, and never claims what is not known.
func TestASecondSettlementWaits(t *testing.T) {
	for _, second := range []string{"ack", "nack", "reject", "extend"} {
		for _, outcome := range []broker.Finish{broker.Finished, broker.FinishUnknown} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBroker{manual: true}
				b, o := New(f, fixed{}), &fakeOwner{}
				d := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
				var s1, s2 api.Status
				go func() { s1 = settle(b, d[0].Token, "ack") }()
				synctest.Wait()
				go func() { s2 = settle(b, d[0].Token, second) }()
				synctest.Wait()
				if s1 != "" || s2 != "" {
					t.Fatalf("answered %q and %q before the outcome", s1, s2)
				}
				f.finish(outcome)
				synctest.Wait()
				if outcome == broker.Finished {
					wantStatus(t, "first", s1, api.StatusOK)
					wantStatus(t, "second", s2, api.StatusAlreadySettled)
				} else {
					wantStatus(t, "first", s1, api.StatusUnavailable)
					wantStatus(t, "second", s2, api.StatusUnavailable)
				}
				b.Close()
			})
		}
	}
}

func TestNackWaits(t *testing.T) {
	for _, c := range []struct {
		words   []string
		attempt int
		wait    time.Duration
	}{
		{[]string{"nack", "0s"}, 3, 0},
		{[]string{"nack", "5s"}, 3, 5 * time.Second},
		{[]string{"nack", "72h"}, 3, 72 * time.Hour},
		{[]string{"nack"}, 1, time.Second},
		{[]string{"nack"}, 3, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			msgs := messages("q", 1, 1)
			msgs[0].Attempt = c.attempt
			d := hand(t, b, o, msgs, time.Minute, nil)
			begin := time.Now()
			wantStatus(t, c.words[0], settle(b, d[0].Token, c.words...), api.StatusOK)
			waitIdle(t, b)
			r := f.gaveBack()
			if len(r) != 1 || r[0].how.Counts != broker.AnAttempt {
				t.Fatalf("%v: given back %s", c.words, describe(r))
			}
			want := time.Time{}
			if c.wait > 0 {
				want = begin.Add(c.wait)
			}
			if !r[0].how.NotBefore.Equal(want) {
				t.Errorf("%v: not before %v, want %v", c.words, r[0].how.NotBefore, want)
			}
			if len(o.returned) != 1 || !o.returned[0].at.Equal(want) || o.slots() != 1 {
				t.Errorf("%v: owner was told %v and %d slots", c.words, o.returned, o.slots())
			}
			// Else the slot would be filled with something that comes after this message.
			if !slices.Equal(o.log, []string{"returned", "released"}) {
				t.Errorf("the owner was told %v", o.log)
			}
			wantStatus(t, "again", settle(b, d[0].Token, "ack"), api.StatusAlreadySettled)
		})
	}
}

func TestNackKeepsItsReason(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	d := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
	b.Settle(context.Background(), []api.Settlement{{Token: d[0].Token, Result: api.Nack, Delay: "1s", Reason: "card declined"}})
	if r := f.gaveBack(); len(r) != 1 || r[0].how.Reason != "card declined" {
		t.Errorf("reason of %+v is lost", r)
	}
}

// A nack that JetStream did not take leaves the delivery live: its app can ask again, and its slot is still taken.
func TestNackThatFails(t *testing.T) {
	f := &fakeBroker{fail: func(*broker.Message) error { return errors.New("away") }}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	d := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
	wantStatus(t, "nack", settle(b, d[0].Token, "nack"), api.StatusUnavailable)
	if o.slots() != 0 || len(o.returned) != 0 || b.InFlight() != 1 {
		t.Errorf("slot released: %d, told %v", o.slots(), o.returned)
	}
	wantStatus(t, "ack instead", settle(b, d[0].Token, "ack"), api.StatusOK)
	waitIdle(t, b)
	if o.slots() != 1 {
		t.Errorf("%d slots, want 1", o.slots())
	}
}

func TestAListIsAnsweredInOrder(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	d := hand(t, b, o, messages("q", 1, 4), time.Minute, nil)
	list := []api.Settlement{
		{Token: d[3].Token, Result: api.Nack, Delay: "0s"},
		{Token: "stranger", Result: api.Ack},
		{Token: d[0].Token, Result: api.Extend},
		{Token: d[0].Token, Result: api.Ack},
		{Token: d[0].Token, Result: api.Ack},
		{Token: d[1].Token, Result: api.Nack, Delay: "0s"},
		{Token: d[2].Token, Result: "bogus"},
		{Token: d[1].Token, Result: api.Ack},
	}
	want := []api.Status{
		api.StatusOK, api.StatusUnknown, api.StatusOK, api.StatusOK, api.StatusAlreadySettled, api.StatusOK,
		api.StatusUnavailable, api.StatusAlreadySettled,
	}
	got := b.Settle(context.Background(), list)
	for i := range want {
		if got[i].Token != list[i].Token || got[i].Status != want[i] {
			t.Errorf("%d: %+v, want %s of %s", i, got[i], want[i], list[i].Token)
		}
	}
	// The two nacks went back in ascending order, whatever their order in the list.
	wantAscending(t, f.gaveBack())
	if b.InFlight() != 1 || o.slots() != 3 {
		t.Errorf("%d in flight and %d slots, want the refused one in flight and 3", b.InFlight(), o.slots())
	}
	if len(b.Settle(context.Background(), nil)) != 0 {
		t.Error("an empty list has answers")
	}
}

// Who cannot wait is told that the outcome is not known; the ack goes on, and is remembered.
func TestSettleGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{manual: true}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		d := hand(t, b, o, messages("q", 1, 1), time.Hour, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got := b.Settle(ctx, []api.Settlement{{Token: d[0].Token, Result: api.Ack}, {Token: "x", Result: api.Ack}})
		wantStatus(t, "ack", got[0].Status, api.StatusUnavailable)
		wantStatus(t, "stranger", got[1].Status, api.StatusUnknown)
		f.finish(broker.Finished)
		wantStatus(t, "ack again", settle(b, d[0].Token, "ack"), api.StatusAlreadySettled)
		if o.slots() != 1 {
			t.Errorf("%d slots, want 1", o.slots())
		}
	})
}

func TestTokensOfOtherAgentsAreUnknown(t *testing.T) {
	f := &fakeBroker{}
	b1, b2, o := New(f, fixed{}), New(f, fixed{}), &fakeOwner{}
	defer b1.Close()
	defer b2.Close()
	d1 := hand(t, b1, o, messages("q", 1, 1), time.Minute, nil)
	d2 := hand(t, b2, o, messages("q", 2, 1), time.Minute, nil)
	wantStatus(t, "foreign", settle(b1, d2[0].Token, "ack"), api.StatusUnknown)
	wantStatus(t, "own", settle(b1, d1[0].Token, "ack"), api.StatusOK)
	if f.finishing[0].Seq != 1 || len(f.finishing) != 1 {
		t.Error("a foreign token finished a message")
	}
}
