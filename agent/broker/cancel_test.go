package broker

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
)

func TestCancel(t *testing.T) {
	r := newRig(t, nil)
	h := r.delayed(time.Hour, Publication{Level: -1})
	for _, bad := range []string{"", "*", ">", "x.y", names.NewHandle(time.Now())} {
		if err := r.CancelDelayed(within(t), r.q.Name, bad); !errors.Is(err, ErrUnknownHandle) || errors.Is(err, ErrDue) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := r.CancelDelayed(within(t), r.q.Name, h); err != nil {
		t.Error(err)
	}
	if err := r.CancelDelayed(within(t), r.q.Name, h); !errors.Is(err, ErrUnknownHandle) {
		t.Errorf("again: %v", err)
	}
	// One that is due waits for a mover, and is not cancelled any more.
	h = r.delayed(150*time.Millisecond, Publication{Level: -1})
	r.due(1)
	if err := r.CancelDelayed(within(t), r.q.Name, h); !errors.Is(err, ErrDue) {
		t.Errorf("a due one: %v", err)
	}
	list, err := r.Delayed(within(t), r.layout(), 10)
	if err != nil || len(list.Messages) != 1 || !list.Messages[0].Due || list.Messages[0].Handle != h {
		t.Errorf("%+v, %v", list, err)
	}
	if n := r.metrics.Cancelled.Load(); n != 1 {
		t.Errorf("%d were cancelled", n)
	}
}

// Whoever cancels while messages fall due is told the truth: cancelled ones never come, all others come once.
func TestCancelRaces(t *testing.T) {
	r := newRig(t, arrivalOrder)
	r.mover()
	const n = 150
	handles := make([]string, n)
	for i := range handles {
		handles[i] = r.delayed(time.Second+time.Duration(i)*4*time.Millisecond, Publication{Level: 0, Data: fmt.Append(nil, i)})
	}
	cancelled := make([]bool, n)
	var all sync.WaitGroup
	for i, h := range handles {
		at, _ := names.ParseHandle(h)
		all.Go(func() {
			time.Sleep(time.Until(at) - time.Duration(i%3)*cancelMargin) // some in time, some just about, some too late
			err := r.CancelDelayed(within(t), r.q.Name, h)
			if cancelled[i] = err == nil; err != nil && !errors.Is(err, ErrUnknownHandle) {
				t.Errorf("message %d: %v", i, err)
			}
		})
	}
	all.Wait()
	until(t, "all have come", func() bool { return r.leftDelayed() == 0 })
	came := map[string]int{}
	a := r.asker()
	for _, m := range a.take(a.at(0, ""), int(r.stored())) {
		came[string(m.Data)]++
	}
	some := 0
	for i := range n {
		want := 1
		if cancelled[i] {
			want = 0
			some++
		}
		if got := came[fmt.Sprint(i)]; got != want {
			t.Errorf("message %d, cancelled %t, came %d times", i, cancelled[i], got)
		}
	}
	if some == 0 || some == n {
		t.Errorf("%d of %d were cancelled: the test has tried nothing", some, n)
	}
}

// A message that was deleted too near to its time is looked for until it cannot come any more.
func TestNotFiring(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, nil)
	h := r.delayed(150*time.Millisecond, Publication{Level: 0})
	r.due(1)
	at, _ := names.ParseHandle(h)
	wantError(t, "one that came", r.notFiring(within(t), r.q.Name, names.Delayed{Handle: h, At: at}), ErrDue)
	later := time.Now().Add(time.Hour)
	if err := r.notFiring(within(t), r.q.Name, names.Delayed{Handle: names.NewHandle(later), At: later}); err != nil {
		t.Errorf("one that was deleted in time: %v", err)
	}
	begin := time.Now()
	if err := r.notFiring(within(t), r.q.Name, names.Delayed{Handle: names.NewHandle(begin), At: begin}); err != nil || time.Since(begin) < firingLimit {
		t.Errorf("one that might still come: %v after %v", err, time.Since(begin))
	}
}
