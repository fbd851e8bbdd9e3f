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
