package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

func TestALeaseEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		begin := time.Now()
		long := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
		short := hand(t, b, o, messages("q", 2, 1), 5*time.Second, nil)
		b.Written(long)
		b.Written(short)
		if !short[0].Deadline.Equal(begin.Add(5 * time.Second)) {
			t.Errorf("deadline %v", short[0].Deadline)
		}
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if len(f.gaveBack()) != 0 {
			t.Fatal("expired too soon")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r := f.gaveBack()
		if len(r) != 1 || r[0].m.Seq != 2 || r[0].how.Counts != broker.AnAttempt || !r[0].how.NotBefore.IsZero() {
			t.Fatalf("after 5 s: %s", describe(r))
		}
		if len(o.returned) != 1 || !o.returned[0].at.IsZero() || o.slots() != 1 {
			t.Errorf("owner was told %v, %d slots", o.returned, o.slots())
		}
		wantStatus(t, "late ack", settle(b, short[0].Token, "ack"), api.StatusExpired)
		wantStatus(t, "late extend", settle(b, short[0].Token, "extend"), api.StatusExpired)
		wantStatus(t, "ack in time", settle(b, long[0].Token, "ack"), api.StatusOK)
		waitIdle(t, b)
	})
}

func TestExtendMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		d := hand(t, b, o, messages("q", 1, 2), 10*time.Second, nil)
		time.Sleep(9 * time.Second)
		wantStatus(t, "extend", settle(b, d[0].Token, "extend"), api.StatusOK)          // to 19 s: its own lease
		wantStatus(t, "extend 2s", settle(b, d[1].Token, "extend", "2s"), api.StatusOK) // to 11 s
		for _, c := range []struct {
			at   time.Duration
			back int
		}{{11*time.Second - 1, 0}, {11 * time.Second, 1}, {19*time.Second - 1, 1}, {19 * time.Second, 2}} {
			time.Sleep(c.at - b.now())
			synctest.Wait()
			if got := len(f.gaveBack()); got != c.back {
				t.Fatalf("at %v: %d given back, want %d", c.at, got, c.back)
			}
		}
	})
}

// An extension to an earlier time counts too.
func TestExtendCanShorten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		d := hand(t, b, o, messages("q", 1, 1), time.Hour, nil)
		settle(b, d[0].Token, "extend", "1s")
		time.Sleep(time.Second)
		synctest.Wait()
		if len(f.gaveBack()) != 1 {
			t.Error("not given back after the shorter lease")
		}
	})
}

func TestAnAckInProgressIsNotExpired(t *testing.T) {
	for _, c := range []struct {
		outcome broker.Finish
		status  api.Status
		back    int
	}{{broker.Finished, api.StatusOK, 0}, {broker.FinishUnknown, api.StatusUnavailable, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{manual: true}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			d := hand(t, b, o, messages("q", 1, 1), time.Second, nil)
			var got api.Status
			go func() { got = settle(b, d[0].Token, "ack") }()
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(f.gaveBack()) != 0 {
				t.Fatal("given back under its ack")
			}
			f.finish(c.outcome)
			synctest.Wait()
			wantStatus(t, "ack", got, c.status)
			if len(f.gaveBack()) != c.back { // its lease was over: without an outcome it goes back at once
				t.Errorf("outcome %v: %d given back, want %d", c.outcome, len(f.gaveBack()), c.back)
			}
			for f.giveBack(nil) {
			}
			waitIdle(t, b)
			if o.slots() != 1 {
				t.Errorf("%d slots, want 1", o.slots())
			}
		})
	}
}

func TestTenThousandLeasesExpireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		for i := n / 100; i > 0; i-- { // handed out in descending order
			hand(t, b, o, messages("q", uint64(i*100), 100), time.Minute, nil)
		}
		time.Sleep(time.Minute)
		waitIdle(t, b)
		if len(f.gaveBack()) != n || o.slots() != n {
			t.Fatalf("%d given back, %d slots", len(f.gaveBack()), o.slots())
		}
		wantAscending(t, f.gaveBack())
		b.mu.Lock()
		defer b.mu.Unlock()
		if cap(b.deadlines.heap) > 2*1024 || len(b.byToken) != 0 || len(b.byMessage) != 0 {
			t.Errorf("heap of %d, %d tokens, %d messages are kept", cap(b.deadlines.heap), len(b.byToken), len(b.byMessage))
		}
	})
}

// While a delivery is alive JetStream hears of it at least every third of its AckWait; afterwards never again.
func TestInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		slow := messages("q", 1, 50)
		fast := messages("r", 1, 1)
		fast[0].AckWait = 3 * time.Second
		silent := messages("s", 1, 1)
		silent[0].AckWait = 0
		begin := time.Now()
		var slowest []Delivery
		for _, m := range slow {
			slowest = append(slowest, hand(t, b, o, []*broker.Message{m}, time.Hour, nil)...)
			time.Sleep(10 * time.Millisecond)
		}
		quick := hand(t, b, o, fast, time.Hour, nil)
		hand(t, b, o, silent, time.Hour, nil)
		time.Sleep(10 * time.Minute)
		settle(b, quick[0].Token, "ack")
		for _, d := range slowest {
			settle(b, d.Token, "ack")
		}
		end := time.Now()
		time.Sleep(10 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.extended[silent[0]]) != 0 {
			t.Error("a message without AckWait was extended")
		}
		for _, m := range append(slow, fast...) {
			at := f.extended[m]
			last := begin
			if len(at) == 0 {
				t.Fatalf("%s %d was never extended", m.Queue, m.Seq)
			}
			if m == slow[0] && len(at) > 70 || m == fast[0] && len(at) > 700 {
				t.Errorf("%d reports in ten minutes", len(at))
			}
			for _, x := range append(at, end) {
				if x.Sub(last) > m.AckWait/3+600*time.Millisecond { // the first is handed up to 500 ms after begin
					t.Fatalf("%s %d: %v without a report", m.Queue, m.Seq, x.Sub(last))
				}
				if x.After(end) {
					t.Fatalf("%s %d: extended after it was settled", m.Queue, m.Seq)
				}
				last = x
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.progress.intervals); n > 1 {
			t.Errorf("%d intervals are kept", n)
		}
	})
}

// Reports of messages that are due at about the same time go out together.
func TestInProgressIsBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		for i := range 1000 {
			hand(t, b, o, messages("q", uint64(i+1), 1), time.Hour, nil)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		instants := map[time.Time]bool{}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, at := range f.extended {
			for _, x := range at {
				instants[x] = true
			}
		}
		if len(instants) > 17*7 {
			t.Errorf("reports went out at %d instants in 70 s; 17 per interval of 10 s are enough", len(instants))
		}
	})
}

func TestSettledTokensAreKnownForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		d := hand(t, b, o, messages("q", 1, 2), time.Second, nil)
		settle(b, d[0].Token, "ack")
		time.Sleep(time.Second) // d[1] expires
		for _, c := range []struct {
			at             time.Duration
			acked, expired api.Status
		}{
			{2 * time.Second, api.StatusAlreadySettled, api.StatusExpired},
			{10*time.Minute - 1, api.StatusAlreadySettled, api.StatusExpired},
			{10*time.Minute + 20*time.Second, api.StatusUnknown, api.StatusUnknown},
			{12 * time.Hour, api.StatusUnknown, api.StatusUnknown},
		} {
			time.Sleep(c.at - b.now())
			wantStatus(t, c.at.String(), settle(b, d[0].Token, "ack"), c.acked)
			wantStatus(t, c.at.String(), settle(b, d[1].Token, "ack"), c.expired)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.memory.chunks) != 0 {
			t.Errorf("%d chunks of memory are kept", len(b.memory.chunks))
		}
	})
}

// A message whose Return failed comes back by itself after AckWait: the owner is told when to look.
func TestAReturnThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{fail: func(*broker.Message) error { return errors.New("away") }}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		hand(t, b, o, messages("q", 1, 1), time.Second, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(o.returned) != 1 || o.slots() != 1 || !o.returned[0].at.Equal(time.Now().Add(30*time.Second)) {
			t.Errorf("owner was told %v, %d slots", o.returned, o.slots())
		}
		if s := b.Stats(); s.ReturnsFailed != 1 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWaitIdleGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := New(&fakeBroker{}, fixed{}), &fakeOwner{}
		defer b.Close()
		hand(t, b, o, messages("q", 1, 3), time.Hour, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := b.WaitIdle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitIdle with three in flight: %v", err)
		}
	})
}
