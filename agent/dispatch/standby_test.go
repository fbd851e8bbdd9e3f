package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// trickle publishes a message every interval for as long as the world runs.
func (w *world) trickle(queue string, interval time.Duration) {
	w.publish(queue, 0, "", 0)
	w.after(interval, func() { w.trickle(queue, interval) })
}

// serve pulls for ever with one app.
func (a *simAgent) serve(max int, work time.Duration) {
	a.pull(max, time.Second, func(got []*broker.Message) {
		a.w.after(work, func() {
			for _, m := range got {
				m.Lane.InHand.Add(-1)
			}
			a.release(got)
			a.step()
			a.serve(max, work)
		})
	})
}

func (w *world) takenBy(a *simAgent, since time.Time) int {
	n := 0
	for _, d := range w.taken {
		if d.agent == a && d.at.After(since) {
			n++
		}
	}
	return n
}

func (a *simAgent) backOff(queue string, on bool) {
	a.core.setBackOff(queue, on, a.w.now)
	a.step()
}

func TestStandbyGetsNothingWhileThePrimaryKeepsPace(t *testing.T) {
	w := newWorld(t, 20)
	primary, standby := w.agent(10, def("q", 1, 0, false, nil)), w.agent(10, def("q", 1, 0, false, nil))
	standby.backOff("q", true)
	primary.serve(1, time.Millisecond)
	standby.serve(1, time.Millisecond)
	w.trickle("q", 10*time.Millisecond)
	w.run(20*time.Second, func() bool { return false })
	if n := w.takenBy(standby, time.Time{}); n*50 > len(w.taken) {
		t.Errorf("the standby took %d of %d", n, len(w.taken))
	}
	if len(w.taken) < 1900 {
		t.Errorf("only %d were taken", len(w.taken))
	}

	// The primary is gone: the standby has everything from now on, and at once what waited.
	gone := w.now
	standby.backOff("q", false)
	primary.core.drain(w.now)
	w.run(time.Second, func() bool { return false })
	if n := w.takenBy(standby, gone); n < 95 {
		t.Errorf("the standby took %d in the second after the primary had gone", n)
	}
	standby.backOff("q", true)
	back := w.now.Add(5 * time.Millisecond)
	w.run(700*time.Millisecond, func() bool { return false })
	if n := w.takenBy(standby, back); n > 1 {
		t.Errorf("the standby took %d after the primary was back", n)
	}
}

// A standby does not listen: what is stored between its slow looks is the primary's, however much credit the standby has, and
// although its last look found nothing to spend it on.
func TestAStandbyDoesNotListen(t *testing.T) {
	w := newWorld(t, 24)
	standby := w.agent(10, def("q", 1, 0, false, nil))
	standby.backOff("q", true)
	standby.serve(10, time.Millisecond)
	for range 5 {
		looks := w.sweeps
		w.run(time.Second, func() bool { return w.sweeps > looks })
		w.run(5*time.Millisecond, func() bool { return false }) // the look is over
		had := len(w.taken)
		for range 3 {
			w.publish("q", 0, "", 0)
		}
		w.run(500*time.Millisecond, func() bool { return false })
		if n := len(w.taken) - had; n > 0 {
			t.Fatalf("the standby took %d between two looks", n)
		}
	}
	w.run(time.Second, func() bool { return len(w.taken) == 15 })
	if n := len(w.taken); n != 15 {
		t.Errorf("its looks found %d of 15", n)
	}
}

// A standby that is at full speed again looks at once for what it has not listened to.
func TestAStandbyThatResumesLooksAtOnce(t *testing.T) {
	w := newWorld(t, 25)
	standby := w.agent(10, def("q", 1, 0, false, nil))
	standby.backOff("q", true)
	standby.serve(1, time.Millisecond)
	w.run(1000*time.Millisecond, func() bool { return false }) // its first look is over
	for range 5 {
		w.publish("q", 0, "", 0)
	}
	w.run(10*time.Millisecond, func() bool { return false })
	if len(w.taken) > 0 {
		t.Fatal("it has looked between: nothing was tried")
	}
	standby.backOff("q", false)
	w.run(50*time.Millisecond, func() bool { return len(w.taken) == 5 })
	if n := len(w.taken); n != 5 {
		t.Errorf("%d of 5 that waited were taken within 50 ms", n)
	}
}

// A saturated primary leaves work behind: the standby's slow look takes its free credit of it, every third interval.
func TestStandbyHelpsASaturatedPrimary(t *testing.T) {
	w := newWorld(t, 21)
	for range 2000 {
		w.publish("q", 0, "", 0)
	}
	standby := w.agent(4, def("q", 1, 0, false, nil))
	standby.backOff("q", true)
	standby.serve(4, time.Millisecond)
	w.run(7500*time.Millisecond, func() bool { return false })
	// Ten looks of at most four, a tenth earlier or later.
	if n := len(w.taken); n < 32 || n > 48 {
		t.Errorf("the standby took %d in ten looks", n)
	}
}

// A pull that does not wait is no way around the back-off.
func TestStandbyPollingWithoutWaiting(t *testing.T) {
	w := newWorld(t, 22)
	for range 100 {
		w.publish("q", 0, "", 0)
	}
	standby := w.agent(4, def("q", 1, 0, false, nil))
	standby.backOff("q", true)
	for range 20 {
		standby.pull(4, 0, func([]*broker.Message) {})
		w.run(10*time.Millisecond, func() bool { return false })
	}
	if n := len(w.taken); n > 4 {
		t.Errorf("the standby took %d in 200 ms", n)
	}
}

// The queues behind the one that backs off are served meanwhile.
func TestStandbyWorksOnOtherQueues(t *testing.T) {
	w := newWorld(t, 23)
	standby := w.agent(4, def("first", 1, 0, false, nil), def("second", 1, 0, false, nil))
	standby.backOff("first", true)
	standby.serve(1, time.Millisecond)
	for range 100 {
		w.publish("first", 0, "", 0)
		w.publish("second", 0, "", 0)
	}
	w.run(500*time.Millisecond, func() bool { return false })
	if n := len(w.taken); n < 100 {
		t.Errorf("%d of the second queue's 100 were taken", n)
	}
	for _, d := range w.taken {
		if d.m.Queue == "first" {
			t.Fatal("it took from the queue on which it backs off")
		}
	}
}
