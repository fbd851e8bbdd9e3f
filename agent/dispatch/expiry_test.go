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

// A message that expires on its way is not handed out, and what is behind it is.
func TestAMessageExpiresOnItsWay(t *testing.T) {
	for _, pull := range []int{1, 3} {
		w := newWorld(t, 4)
		w.faults.latency = 20 * time.Millisecond
		a := w.agent(10, def("q", 1, 0, false, nil))
		w.run(time.Second, func() bool { return false })                    // the sweep
		w.publish("q", 0, "", 0).Expires = w.now.Add(50 * time.Millisecond) // taken at 40 ms, there at 60 ms
		w.publish("q", 0, "", 0)
		a.pull(pull, 5*time.Second, a.release)
		w.run(5*time.Second, func() bool { return len(w.taken) > 0 && w.expired > 0 })
		for _, d := range w.taken {
			if d.m.Expired(d.at) {
				t.Errorf("pulls of %d: message %d was handed out %v after it had expired", pull, d.m.Seq, d.at.Sub(d.m.Expires))
			}
		}
		if len(w.taken) != 1 || w.taken[0].m.Seq != 2 || w.expired != 1 {
			t.Errorf("pulls of %d: taken %v, %d expired", pull, w.order(), w.expired)
		}
	}
}
