package broker

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// What a lane has in flight is what its own consumer waits for: a message that was returned to an earlier tenure's consumer is not
// among it. And what was read at different moments never adds up to more than is stored.
func TestInFlightIsOfTheLanesOwnConsumer(t *testing.T) {
	layout := NewLayout(definition(nil))
	address, ok := layout.Address(names.Class(1), "a")
	if !ok {
		t.Fatal("no lane")
	}
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		stored  uint64
		lane    laneCount
		records []attempt
		want    Depth
	}{
		"returned in this tenure": {
			3, laneCount{address: address, fence: 6, pending: 1, delivered: 1},
			[]attempt{{Fence: 6, Sequence: 1, Delivered: 1, Address: "p1.a"}},
			Depth{Stored: 3, Waiting: 3},
		},
		"returned in an earlier one": {
			3, laneCount{address: address, fence: 6, pending: 1, delivered: 1},
			[]attempt{{Fence: 5, Sequence: 1, Delivered: 1, Address: "p1.a"}},
			Depth{Stored: 3, Waiting: 2, InFlight: 1},
		},
		"backs off since an earlier one": {
			3, laneCount{address: address, fence: 6, pending: 1, delivered: 1},
			[]attempt{{Fence: 5, Sequence: 1, Delivered: 1, Address: "p1.a", NotBefore: now.Add(time.Hour).UnixMilli()}},
			Depth{Stored: 3, Waiting: 1, InFlight: 1, BackingOff: 1},
		},
		"finished meanwhile": {
			2, laneCount{address: address, pending: 5, delivered: 9},
			[]attempt{{Sequence: 10, Address: "p1.a", NotBefore: now.Add(time.Hour).UnixMilli()}},
			Depth{Stored: 2, InFlight: 1, BackingOff: 1},
		},
	} {
		sum := newTally(layout)
		sum.stored("p1.a", c.stored)
		sum.held([]laneCount{c.lane}, c.records, now)
		s := sum.stats(10)
		if got := s.Levels[1].Depth; got != c.want {
			t.Errorf("%s: the level has %+v, want %+v", name, got, c.want)
		}
		if len(s.Keys) != 1 || s.Keys[0].Depth != c.want {
			t.Errorf("%s: the tenant has %+v, want %+v", name, s.Keys, c.want)
		}
	}
}
