package broker

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Delays survive a restart of the server, also those that ran out while it was away, and those that were due and not moved.
func TestDelaysSurviveAServerRestart(t *testing.T) {
	for _, storage := range []string{"none", "s2"} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			s := newOutside(t)
			r := s.rig(func(q *config.Queue) { arrivalOrder(q); q.Storage.Compression = storage })
			r.delayed(100*time.Millisecond, Publication{Level: 0, Data: []byte("due")})
			r.due(1)
			// Far enough apart for the server to be stopped before the first, and to be back well before the others.
			const second, third = 2500 * time.Millisecond, 6 * time.Second
			away := time.Now().Add(second)
			later := time.Now().Add(third)
			r.delayed(second, Publication{Level: 0, Data: []byte("away")})
			r.delayed(third, Publication{Level: 0, Data: []byte("later")})
			cancelled := r.delayed(third, Publication{Level: 0, Data: []byte("cancelled")})
			r.mover()
			a := r.asker()
			if got := payloads(a.take(a.at(0, ""), 1)); got != "due " {
				t.Errorf("got %s", got)
			}
			// An original whose copy is there already, and that the server did not delete before it stopped, comes again when the
			// mover's time for it is over: that takes longer than this test.
			until(t, "the original of the first is gone", func() bool { return r.leftDelayed() == 3 })
			s.stop()
			time.Sleep(time.Until(away) + 100*time.Millisecond) // that is what is tested: it runs out meanwhile
			s.start()
			r.reconnected()
			if err := r.CancelDelayed(within(t), r.q.Name, cancelled); err != nil {
				t.Error(err)
			}
			until(t, "both have come", func() bool { return r.stored() == 3 })
			if early := time.Until(later); early > 0 {
				t.Errorf("the last one came %v early", early)
			} else if early < -overdueAfter/2 {
				t.Errorf("the last one came %v late", -early)
			}
			until(t, "nothing is left", func() bool { return r.leftDelayed() == 0 })
			if n := r.stored(); n != 3 {
				t.Errorf("%d are stored", n)
			}
		})
	}
}

// A stream that was deleted underneath is told of, and nothing is stored that could not be found again.
func TestDelaysWithoutTheirStream(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, nil)
	if err := r.wire.JS.DeleteStream(within(t), "FL_DELAY_orders"); err != nil {
		t.Fatal(err)
	}
	r.mover()
	_, err := r.Publish(within(t), r.q, Publication{Level: 0, At: time.Now().Add(time.Hour)})
	wantError(t, "publish", err, ErrNoDelays)
	_, err = r.Delayed(within(t), r.layout(), 10)
	wantError(t, "list", err, ErrStreamMissing)
	wantError(t, "cancel", r.CancelDelayed(within(t), "orders", names.NewHandle(time.Now().Add(time.Hour))), ErrStreamMissing)
	if counts, err := r.DelayedCounts(within(t), r.layout()); err != nil || len(counts) != 3 {
		t.Errorf("%v, %v", counts, err)
	}
	// A message of before is finished all the same.
	r.raw("p0.a", "x", headerDelayed, names.NewHandle(time.Now()))
	a := r.asker()
	if f := r.finished(a.take(a.at(0, "a"), 1)[0]); f != Finished {
		t.Error(f)
	}
	r.define(r.q)
	r.delayed(100*time.Millisecond, Publication{Level: 0, Key: "a", Data: []byte("again")})
	if got := payloads(a.take(a.at(0, "a"), 1)); got != "again " {
		t.Errorf("got %s", got)
	}
}
