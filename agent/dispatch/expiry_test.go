package dispatch

import (
	"testing"
	"time"
)

// A tenant whose messages have expired is not charged for them: what it has behind them gets the turns that it would have got.
func TestExpiredMessagesCostNoTurns(t *testing.T) {
	for _, pull := range []int{1, 2, 8, 64} {
		w := newWorld(t, 3)
		for range 100 {
			w.publish("q", 0, "late", 0).Expires = w.now
		}
		for range 200 {
			w.publish("q", 0, "late", 0)
			w.publish("q", 0, "other", 0)
		}
		a := w.agent(1000, def("q", 1, 0, true, nil))
		a.worker(pull, time.Second, 0)
		w.run(long, func() bool { return len(w.taken) >= 400 })
		if w.expired != 100 || len(w.taken) != 400 {
			t.Fatalf("pulls of %d: %d expired, %d taken", pull, w.expired, len(w.taken))
		}
		ahead := 0 // of the other tenant
		for i, d := range w.taken[:300] {
			if d.m.Key == "late" {
				ahead--
			} else {
				ahead++
			}
			if ahead < -1 || ahead > 1 {
				t.Fatalf("pulls of %d: after %d deliveries the other tenant is %d ahead", pull, i+1, ahead)
			}
		}
	}
}

// A message that expires on its way is not handed out, at whatever point of it, and what is behind it is.
func TestAMessageExpiresOnItsWay(t *testing.T) {
	late := 0
	for _, pull := range []int{1, 3} {
		for left := 5 * time.Millisecond; left < 150*time.Millisecond; left += 5 * time.Millisecond {
			w := newWorld(t, 4)
			w.faults.latency = 20 * time.Millisecond
			a := w.agent(10, def("q", 1, 0, false, nil))
			w.run(time.Second, func() bool { return false }) // the sweep
			first := w.publish("q", 0, "", 0)
			first.Expires = w.now.Add(left)
			w.publish("q", 0, "", 0)
			a.worker(pull, 2*time.Second, 0)
			w.run(5*time.Second, func() bool { return len(w.taken) > 0 && w.taken[len(w.taken)-1].m != first })
			for _, d := range w.taken {
				if d.m.Expired(d.at) {
					t.Errorf("pulls of %d: message %d was handed out %v after it had expired", pull, d.m.Seq, d.at.Sub(d.m.Expires))
				}
			}
			if len(w.taken) == 0 || w.taken[len(w.taken)-1].m.Seq != 2 {
				t.Errorf("pulls of %d, %v left: taken %v", pull, left, w.order())
			}
			w.run(time.Second, func() bool { return false })
			if len(a.core.back) > 0 {
				t.Errorf("pulls of %d, %v left: counted as on their way back in the end: %v", pull, left, a.core.back)
			}
			late += w.late
		}
	}
	if late == 0 {
		t.Error("no message expired between the take and the hand-over: the test has tried nothing")
	}
}
