package priority

import (
	"fmt"
	"slices"
	"testing"
)

func TestMixedEnqueueComesOutByLevel(t *testing.T) {
	w := newWorld(New(3, 0, 1))
	for _, level := range []int{2, 0, 1, 2, 0} {
		w.publish(level, "", 1)
	}
	if got := brief(w.pull(10)); got != "H×2 M L×2" {
		t.Error(got)
	}
}

// 15,000 messages in each of 5 levels: no inversion, at any pull size.
func TestNoInversions(t *testing.T) {
	for _, size := range []int{1, 64} {
		w := newWorld(New(5, 0, 1))
		for level := range 5 {
			for k := range 10 {
				w.publish(level, fmt.Sprint(k), 1500)
			}
		}
		last, total := 0, 0
		for {
			got := w.pull(size)
			if len(got) == 0 {
				break
			}
			for _, l := range got {
				if l.level < last {
					t.Fatalf("pulls of %d: level %d after %d", size, l.level, last)
				}
				last = l.level
			}
			total += len(got)
		}
		if total != 75_000 {
			t.Errorf("pulls of %d: %d of 75,000", size, total)
		}
	}
}

func TestHigherLevelIsNextAsSoonAsItIsKnown(t *testing.T) {
	w := newWorld(New(3, 0, 1))
	w.publish(2, "deep", 100)
	for range 20 {
		w.pull(3)
		w.publish(0, "urgent", 1)
		if got := w.pull(1); got[0] != (lane{0, "urgent"}) {
			t.Fatalf("%v was next", got[0])
		}
	}
}

func TestFairInsideEachLevel(t *testing.T) {
	for _, guard := range []int{0, 3} {
		q := New(2, guard, 1)
		for level := range 2 {
			q.Wake(level, "a", 3000)
			q.Wake(level, "b", 1000)
		}
		n := map[lane]int{}
		for range 4 * 4 * 100 {
			turn, _ := q.Pick()
			q.Settle(turn, turn.Weight)
			n[lane{turn.Level, turn.Key}]++
		}
		for level := range 2 {
			a, b := n[lane{level, "a"}], n[lane{level, "b"}]
			if guard == 0 && level == 1 {
				if a+b != 0 {
					t.Errorf("strict, but level 1 got %d", a+b)
				}
			} else if a != 3*b {
				t.Errorf("guard %d, level %d: %d to %d, want 3:1", guard, level, a, b)
			}
		}
	}
}

// A held key stops the pick where it is due, and only there: what comes before
// it is given, and nothing lower slips past it.
func TestHeldKeyBlocksLowerLevels(t *testing.T) {
	q := New(2, 0, 1)
	q.Wake(0, "a", 1000)
	q.Wake(0, "b", 1000)
	q.Wake(1, "low", 1000)
	_, first, _ := q.Peek()
	held := map[string]string{"a": "b", "b": "a"}[first]
	q.Hold(0, held)
	turn, outcome := q.Pick()
	if outcome != Picked || turn.Key != first {
		t.Fatalf("picked %q %v", turn.Key, outcome)
	}
	if turn, outcome := q.Pick(); outcome != Blocked || turn != (Turn{}) {
		t.Fatalf("picked %+v %v, want it blocked", turn, outcome)
	}
	if level, key, outcome := q.Peek(); level != 0 || key != held || outcome != Blocked {
		t.Errorf("peek: %d %q %v", level, key, outcome)
	}
	q.Unhold(0, held)
	if turn, outcome := q.Pick(); outcome != Picked || turn.Key != held {
		t.Errorf("picked %q %v", turn.Key, outcome)
	}
	// Asleep, it stands in nobody's way.
	q.Hold(0, held)
	q.Sleep(0, held)
	q.Sleep(0, first)
	if turn, _ := q.Pick(); turn.Key != "low" {
		t.Errorf("picked %q", turn.Key)
	}
}

func TestBeliefs(t *testing.T) {
	q := New(3, 0, 1)
	if q.HasWork() || q.Levels() != 3 {
		t.Error("work in an empty queue")
	}
	if _, _, outcome := q.Peek(); outcome != Idle {
		t.Errorf("peek: %v", outcome)
	}
	q.Wake(1, "a", 1000)
	q.Wake(1, "b", 1000)
	q.Wake(99, "odd", 1000) // no such level: the lowest
	q.Wake(-1, "odder", 1000)
	if !q.HasWork() || q.Active(1) != 2 || q.Active(2) != 2 || !q.Contains(1, "a") || q.Contains(0, "a") {
		t.Error("wrong beliefs")
	}
	q.SetWeight("a", 4000)
	q.SetWeight("odd", 2000)
	q.SetWeight("nobody", 2000)
	for _, s := range q.Snapshot() {
		for _, k := range s.Keys {
			if want := map[string]Weight{"a": 4000, "b": 1000, "odd": 2000, "odder": 1000}[k.Key]; k.Weight != want {
				t.Errorf("%s: weight %d, want %d", k.Key, k.Weight, want)
			}
		}
	}
	for _, l := range []lane{{1, "a"}, {1, "b"}, {2, "odd"}, {99, "odder"}} {
		q.Sleep(l.level, l.key)
	}
	if q.HasWork() {
		t.Error("work after all sleep")
	}
}

func TestSnapshotIsInTotalOrder(t *testing.T) {
	build := func(order []int) []LevelState {
		q := New(3, 5, 3)
		for _, i := range order {
			q.Wake(i%3, fmt.Sprint(i), Weight(1000*(1+i%4)))
		}
		for range 50 {
			turn, _ := q.Pick()
			q.Settle(turn, turn.Weight)
		}
		return q.Snapshot()
	}
	up := make([]int, 60)
	for i := range up {
		up[i] = i
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	a, b := build(up), build(down)
	for i := range a {
		if !slices.Equal(a[i].Keys, b[i].Keys) || a[i].Yields != b[i].Yields || a[i].Active != 20 {
			t.Errorf("level %d depends on the order of arrival:\n%+v\n%+v", i, a[i], b[i])
		}
	}
	if a[0].Yields != 2 { // five, one below, and so on: 50 = 8*(5+1) + 2
		t.Errorf("yields: %d", a[0].Yields)
	}
}

func TestManyLevels(t *testing.T) {
	for _, levels := range []int{1, 63, 64, 65, 100, 200} {
		w := newWorld(New(levels, 0, 1))
		for level := levels - 1; level >= 0; level-- {
			w.publish(level, "k", 1)
		}
		for i, l := range w.pull(levels + 1) {
			if l.level != i {
				t.Fatalf("%d levels: %d at %d", levels, l.level, i)
			}
		}
	}
	if New(0, 0, 0).Levels() != 1 || New(-3, -1, 0).Levels() != 1 {
		t.Error("a queue has at least one level")
	}
}

func TestNoAllocations(t *testing.T) {
	q := New(3, 3, 1)
	for level := range 3 {
		for k := range 100 {
			q.Wake(level, fmt.Sprint(k), 1000)
		}
	}
	// Rounds overlap: the next one is picked before the last is settled.
	var rounds [2][32]Turn
	n := 0
	step := func() {
		for i := range rounds[n%2] {
			if n > 1 {
				q.Settle(rounds[n%2][i], 1000)
			}
		}
		for i := range rounds[n%2] {
			rounds[n%2][i], _ = q.Pick()
		}
		n++
	}
	for range 20 {
		step()
	}
	if allocs := testing.AllocsPerRun(200, step); allocs != 0 {
		t.Errorf("%v allocations a round", allocs)
	}
	if c := cap(q.guard.journal); c > 512 {
		t.Errorf("the journal has grown to %d for 64 open turns", c)
	}
}

// Equal tenants have another order at each level: two agents that ask the same lanes at one level do not do so at all of them.
func TestTiesBreakDifferentlyAtEachLevel(t *testing.T) {
	q := New(4, 0, 1)
	orders := map[string]bool{}
	for level := range 4 {
		for i := range 10 {
			q.Wake(level, fmt.Sprint(i), 0)
		}
		order := ""
		for range 10 {
			turn, _ := q.Pick()
			q.Settle(turn, turn.Weight)
			q.Sleep(level, turn.Key)
			order += turn.Key
		}
		orders[order] = true
	}
	if len(orders) != 4 {
		t.Errorf("four levels, and the orders %v", orders)
	}
}
