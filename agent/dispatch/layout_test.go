package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// What is on its way while a queue gets another layout speaks of lanes that the queue has no more. A lane made up from it
// would have the consumer of another lane, or a level that is not there.
func TestWhatIsOnItsWayWhenTheLayoutChanges(t *testing.T) {
	w := newWorld(t, 30)
	before, after := def("q", 3, 0, true, nil), def("q", 1, 0, false, nil)
	a := w.agent(4, before)
	old := broker.NewLayout(before)
	address, _ := old.Address("p2", "acme")
	if a.core.current(&old) == nil {
		t.Fatal("wake-ups of the layout in force are dropped")
	}
	a.core.define(definition(after), w.now)
	if a.core.current(&old) != nil {
		t.Error("wake-ups of the former layout are taken in")
	}
	a.core.returned("q", address, time.Time{}, w.now)
	a.core.returned("q", address, w.now.Add(time.Second), w.now)
	q := a.core.queueNamed("q")
	for have := range q.lanes {
		class, _ := q.layout.Address(have.Class, "_")
		if have != class {
			t.Errorf("there is a lane at %+v", have)
		}
	}
	if len(q.lanes) != 1 {
		t.Errorf("there are %d lanes, want that of the returned message", len(q.lanes))
	}
}
