package broker

import (
	"fmt"
	"sync"
	"testing"
)

func TestFinish(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "1")
	r.publish(0, "a", "2")
	m := a.take(a.at(0, "a"), 1)[0]
	if f := r.finished(m); f != Finished || r.stored() != 1 {
		t.Errorf("finished: %v, %d left", f, r.stored())
	}
	if f := r.finished(m); f != AlreadyFinished {
		t.Errorf("finished again: %v", f)
	}
	if got := payloads(a.take(a.at(0, "a"), 1)); got != "2 " {
		t.Errorf("next came %s", got)
	}
	if n := r.metrics.Deletes.Load(); n != 1 {
		t.Errorf("counted %d deletes", n)
	}
}

// Whoever finishes a message at the same time, one of them has done it.
func TestFinishTogether(t *testing.T) {
	r := newRig(t, nil)
	agents := []*rig{r, r.another()}
	a := r.asker()
	for i := range 200 {
		r.raw("p0.a", fmt.Sprint(i))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := map[Finish]int{}
	for _, m := range a.take(a.at(0, "a"), 200) {
		for _, agent := range agents {
			wg.Add(1)
			copied := &Message{Queue: m.Queue, Seq: m.Seq, Lane: m.Lane}
			agent.Finish(copied, func(f Finish) {
				mu.Lock()
				count[f]++
				mu.Unlock()
				wg.Done()
			})
		}
	}
	wg.Wait()
	if count[Finished] != 200 || count[AlreadyFinished] != 200 || r.stored() != 0 {
		t.Errorf("%v, %d left", count, r.stored())
	}
}

// While the server is away a finish is unknown, and a repeat afterwards settles it, whether or not the first was
// carried out.
func TestFinishThroughAnOutage(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil)
	a := r.asker()
	r.publish(0, "a", "1")
	r.publish(0, "a", "2")
	both := a.take(a.at(0, "a"), 2)
	if f := r.finished(both[0]); f != Finished {
		t.Fatal(f)
	}
	// The first one's answer got lost, as far as its owner knows.
	both[0].doubt()
	s.stop()
	for _, m := range both {
		if f := r.finished(m); f != FinishUnknown {
			t.Errorf("without a server: %v", f)
		}
	}
	s.start()
	r.reconnected()
	for _, m := range both {
		until(t, "the finish is known", func() bool {
			f := r.finished(m)
			if f == AlreadyFinished {
				t.Fatalf("%s: its owner's own finish was taken for somebody else's", m.Data)
			}
			return f == Finished
		})
	}
	if n := r.stored(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Deletes beyond the limit in flight wait their turn; none is lost.
func TestFinishMany(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	const n = 1000
	r.backlog(n, "p0.a")
	done := make(chan Finish, n)
	for _, m := range a.take(a.at(0, "a"), n) {
		r.Finish(m, func(f Finish) { done <- f })
	}
	for range n {
		if f := wait(t, done, "a finish"); f != Finished {
			t.Fatal(f)
		}
	}
	if r.stored() != 0 {
		t.Errorf("%d are left", r.stored())
	}
}
