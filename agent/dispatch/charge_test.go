package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// trying pulls for ever with an app that gives back, at once, what fails.
func (a *simAgent) trying(max int, fails func(m *broker.Message) bool) {
	a.pull(max, time.Second, func(got []*broker.Message) {
		for _, m := range got {
			if fails(m) {
				m.Attempt++
				a.nack(m, 0)
				continue
			}
			m.Lane.InHand.Add(-1)
			a.release([]*broker.Message{m})
		}
		a.step()
		a.trying(max, fails)
	})
}

// A tenant pays for each time that one of its messages is handed over, also when it was before and came back: one whose
// messages all fail, again and again, gets its share of deliveries and no more.
func TestEachDeliveryIsPaidFor(t *testing.T) {
	for _, pull := range []int{1, 2, 8, 64} {
		for _, weight := range []config.Weight{1000, 3000, 500} {
			w := newWorld(t, 50)
			for range 300 {
				w.publish("q", 0, "fails", 0)
				w.publish("q", 0, "works", 0)
			}
			a := w.agent(1000, def("q", 1, 0, true, map[string]config.Weight{"fails": weight}))
			a.trying(pull, func(m *broker.Message) bool { m.Attempt = max(m.Attempt, 1); return m.Key == "fails" })
			w.run(long, func() bool { return len(w.taken) >= 300 })
			fails, works := 0, 0
			for i, d := range w.taken {
				if d.m.Key == "fails" {
					fails++
				} else {
					works++
				}
				// One turn each, in service per weight.
				if ahead := fails*1000 - works*int(weight); ahead > 1000+int(weight) || -ahead > 1000+int(weight) {
					t.Fatalf("pulls of %d, weight %d: after %d deliveries %d were of the tenant that fails, %d of the other", pull, weight, i+1, fails, works)
				}
			}
		}
	}
}

// A tenant that was given one turn at a small weight owes many: going away and coming back does not end that.
func TestADebtSurvivesAnEmptyLane(t *testing.T) {
	w := newWorld(t, 51)
	for range 500 {
		w.publish("q", 0, "steady", 0)
	}
	w.publish("q", 0, "light", 0)
	a := w.agent(1000, def("q", 1, 0, true, map[string]config.Weight{"light": 100}))
	a.serve(1, time.Millisecond)
	served, seen := []int{}, 0 // where the light tenant's turns were
	for len(w.taken) < 300 {
		w.run(time.Millisecond, func() bool { return len(w.taken) > seen })
		for ; seen < len(w.taken); seen++ {
			if w.taken[seen].m.Key == "light" {
				served = append(served, seen)
				w.publish("q", 0, "light", 0)
			}
		}
	}
	if len(served) < 20 {
		t.Fatalf("the light tenant was served at %v only", served)
	}
	for i := 1; i < len(served); i++ {
		if between := served[i] - served[i-1]; between < 9 {
			t.Fatalf("its turns are at %v: a tenth of the weight is every eleventh", served)
		}
	}
}

// A tenant that was asked in vain, because another agent was faster, has not paid: its next message gets the turn that it has
// been waiting for. At a tenth of the weight a turn that was not taken back would cost it ten of the other's.
func TestATurnThatBroughtNothingIsNotPaidFor(t *testing.T) {
	w := newWorld(t, 52)
	for range 100 {
		w.publish("q", 0, "steady", 0)
	}
	a := w.agent(10, def("q", 1, 0, true, map[string]config.Weight{"robbed": 100}))
	next := func() string {
		t.Helper()
		key := ""
		a.pull(1, time.Second, func(got []*broker.Message) {
			for _, m := range got {
				key = m.Key
				m.Lane.InHand.Add(-1)
			}
			a.release(got)
			a.step()
		})
		w.run(2*time.Second, func() bool { return key != "" })
		return key
	}
	for range 3 {
		next()
	}
	wake := func() {
		w.publish("q", 0, "robbed", 0)
		w.run(time.Millisecond, func() bool { return false })
	}
	wake()
	w.lane("q", broker.Address{Class: "p0", Key: "robbed"}).messages = nil // somebody else has it
	if got := next(); got != "steady" || w.empty == 0 {
		t.Fatalf("got one of %q, %d questions were in vain", got, w.empty)
	}
	wake()
	if first, second := next(), next(); first != "robbed" && second != "robbed" {
		t.Errorf("the next two are of %s and %s", first, second)
	}
}

// A heavy message at the end of a tenant's backlog makes nothing before it any cheaper.
func TestAHeavyMessageSpeaksForItselfAlone(t *testing.T) {
	for _, pull := range []int{1, 8, 64} {
		w := newWorld(t, 53)
		for range 300 {
			w.publish("q", 0, "a", 0)
			w.publish("q", 0, "b", 0)
		}
		a := w.agent(1000, def("q", 1, 0, true, nil))
		a.serve(pull, time.Millisecond)
		w.run(long, func() bool { return len(w.taken) >= 64 })
		for range 5 { // each of them is heard of
			w.publish("q", 0, "a", 1_000_000)
			w.run(2*time.Millisecond, func() bool { return false })
		}
		w.run(long, func() bool { return len(w.taken) >= 320 })
		ahead := 0
		for i, d := range w.taken[:320] {
			if d.m.Key == "a" {
				ahead++
			} else {
				ahead--
			}
			if ahead < -2 || ahead > 2 {
				t.Fatalf("pulls of %d: after %d deliveries the tenant with the heavy messages is %d ahead", pull, i+1, ahead)
			}
		}
	}
}

// Weights of a definition that is changed, and nothing else of it, act on what waits already.
func TestADefinitionsWeightsActOnWhatIsWaiting(t *testing.T) {
	w := newWorld(t, 54)
	for range 1000 {
		w.publish("q", 0, "a", 2000)
		w.publish("q", 0, "b", 0)
	}
	a := w.agent(1000, def("q", 1, 0, true, nil))
	a.serve(4, time.Millisecond)
	for _, step := range []struct {
		weights map[string]config.Weight
		a, b    int
	}{
		{nil, 2, 1},
		{map[string]config.Weight{"a": 1000}, 1, 1},
		{map[string]config.Weight{"a": 1000, "b": 3000}, 1, 3},
		{map[string]config.Weight{"b": 1000}, 2, 1}, // the messages' own again
		{nil, 2, 1},
	} {
		a.core.define(definition(def("q", 1, 0, true, step.weights)), w.now)
		a.step()
		from, whole := len(w.taken)+4*(step.a+step.b), step.a+step.b
		w.run(long, func() bool { return len(w.taken) >= from+20*whole })
		for i := from; i < from+20*whole; i += whole {
			if n := shares(w.taken[i : i+whole])["a"]; n != step.a {
				t.Fatalf("weights %v: %d of %d went to a, want %d", step.weights, n, whole, step.a)
			}
		}
	}
}
