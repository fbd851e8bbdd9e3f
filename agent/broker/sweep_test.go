package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/config"
)

func TestSweep(t *testing.T) {
	r := newRig(t, nil)
	if s, err := r.Sweep(within(t), r.layout()); err != nil || len(s.Lanes) != 0 || len(s.Odd) != 0 {
		t.Errorf("an empty queue: %+v, %v", s, err)
	}
	for _, subject := range []string{"p1.b", "d.b", "d._", "p0.a", "p0.a", "p2.z", "p2.a", "p7.a", "p12.a", "p0.a=2Eb", "px.a", "p0.=ZZ", "p0.*", "p0", "p0.a.b"} {
		r.raw(subject, "x")
	}
	want := []Found{
		{Address{"p0", 0, "a"}, 2},
		{Address{"p0", 0, "a.b"}, 1},
		{Address{"d", 1, ""}, 1},
		{Address{"d", 1, "b"}, 1},
		{Address{"p1", 1, "b"}, 1},
		{Address{"p12", 2, "a"}, 1},
		{Address{"p2", 2, "a"}, 1},
		{Address{"p2", 2, "z"}, 1},
		{Address{"p7", 2, "a"}, 1},
	}
	s, err := r.Sweep(within(t), r.layout())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Lanes, want) {
		t.Errorf("found %+v, want %+v", s.Lanes, want)
	}
	if got := fmt.Sprint(s.Odd); got != "[fl.q.orders.p0 fl.q.orders.p0.* fl.q.orders.p0.=ZZ fl.q.orders.p0.a.b fl.q.orders.px.a]" {
		t.Errorf("odd are %s", got)
	}
	if s.Took <= 0 || r.metrics.Sweeps.Load("orders") != 2 {
		t.Errorf("took %v, counted %d", s.Took, r.metrics.Sweeps.Load("orders"))
	}

	// A message in hand still counts; a finished one does not.
	a := r.asker()
	both := a.take(a.at(0, "a"), 2)
	r.finished(both[0])
	if s, err = r.Sweep(within(t), r.layout()); err != nil || s.Lanes[0] != (Found{Address{"p0", 0, "a"}, 1}) {
		t.Errorf("found %+v, %v", s.Lanes, err)
	}
}

func TestSweepArrivalOrder(t *testing.T) {
	r := newRig(t, arrivalOrder)
	for _, subject := range []string{"p1.b", "d.c", "p0.a", "p0.b", "p0.=ZZ", "p2.x", "p5.x", "px.a"} {
		r.raw(subject, "x")
	}
	want := []Found{{Address{"p0", 0, ""}, 3}, {Address{"p1", 1, ""}, 2}, {Address{"p2", 2, ""}, 1}, {Address{"p5", 2, ""}, 1}}
	s, err := r.Sweep(within(t), r.layout())
	if err != nil || !slices.Equal(s.Lanes, want) || len(s.Odd) != 1 {
		t.Errorf("found %+v, %v", s, err)
	}
	// Every lane that the sweep finds gives what the sweep counted, and no two give the same message.
	a := r.asker()
	for _, found := range s.Lanes {
		a.take(a.Lane(r.layout(), found.Address), int(found.Messages))
	}
}

// Two environments in one account see nothing of each other.
func TestPrefixes(t *testing.T) {
	r := newRig(t, nil)
	r.publish(0, "a", "of fl")
	c := connect(t, config.NATS{URLs: []string{r.Connection().URL}, Prefix: "test"})
	other := (&rig{c, t, definition(nil)}).setUp()
	if s, err := other.Sweep(within(t), other.layout()); err != nil || len(s.Lanes) != 0 {
		t.Errorf("found %+v, %v", s, err)
	}
	if seq := other.publish(0, "a", "of test").Seq; seq == 0 || r.stored() != 1 || other.stored() != 1 {
		t.Errorf("%d and %d are stored", r.stored(), other.stored())
	}
}
