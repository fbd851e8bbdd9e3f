package priority

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var names = []string{"H", "M", "L"}

// brief writes H H H M as H×3 M.
func brief(lanes []lane) string {
	var out []string
	for i := 0; i < len(lanes); {
		n := 1
		for i+n < len(lanes) && lanes[i+n].level == lanes[i].level {
			n++
		}
		word := names[lanes[i].level]
		if n > 1 {
			word += fmt.Sprintf("×%d", n)
		}
		out = append(out, word)
		i += n
	}
	return strings.Join(out, " ")
}

func TestWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		guard   int
		backlog [3]int
		want    string
	}{
		{10, [3]int{20, 2, 1}, "H×10 M H×10 M L"},
		{0, [3]int{20, 2, 1}, "H×20 M×2 L"},
		{10, [3]int{20, 0, 1}, "H×10 L H×10"},
		{10, [3]int{9, 2, 1}, "H×9 M×2 L"},
		{2, [3]int{9, 4, 2}, "H×2 M H×2 M H×2 L H×2 M H M L"},
		{1, [3]int{4, 4, 2}, "H M H L H M H L M×2"},
		{10, [3]int{0, 12, 2}, "M×10 L M×2 L"},
	} {
		for _, size := range []int{1, 2, 8, 64} {
			w := newWorld(New(3, c.guard, 1))
			for level, n := range c.backlog {
				if n > 0 {
					w.publish(level, "k", n)
				}
			}
			var got []lane
			for len(got) < c.backlog[0]+c.backlog[1]+c.backlog[2] {
				got = append(got, w.pull(size)...)
			}
			if brief(got) != c.want {
				t.Errorf("guard %d, %v, pulls of %d: %s, want %s", c.guard, c.backlog, size, brief(got), c.want)
			}
		}
	}
}

func TestFloodLeavesOneIn121(t *testing.T) {
	for _, size := range []int{1, 2, 8, 64} {
		w := newWorld(New(3, 10, 1))
		for level := range 3 {
			w.publish(level, "k", 20_000)
		}
		var got []lane
		for len(got) < 121*20 {
			got = append(got, w.pull(min(size, 121*20-len(got)))...)
		}
		for cycle := range slices.Chunk(got, 121) {
			n := [3]int{}
			for _, l := range cycle {
				n[l.level]++
			}
			if n != [3]int{110, 10, 1} {
				t.Fatalf("pulls of %d: %v of 121, want 110, 10, 1", size, n)
			}
		}
	}
}

// However old and big the lower backlog is: turns, one at a time, never a burst;
// and none is owed for the time before it came.
func TestOldBacklogGetsTurnsNotABurst(t *testing.T) {
	w := newWorld(New(2, 10, 1))
	w.publish(0, "k", 1000)
	w.pull(500) // nothing lower waits: does not count
	w.publish(1, "k", 10_000)
	names = []string{"H", "L", ""}
	defer func() { names = []string{"H", "M", "L"} }()
	if got := brief(w.pull(33)); got != "H×10 L H×10 L H×10 L" {
		t.Error(got)
	}
}

// The yield of a level is due again when it brought nothing: at the next pick,
// to whoever has work then, also while other turns are open.
func TestRefundedYieldIsDueAgain(t *testing.T) {
	q := New(3, 2, 1)
	for level := range 3 {
		q.Wake(level, "k", 1000)
	}
	pick := func(level int) Turn {
		t.Helper()
		turn, outcome := q.Pick()
		if outcome != Picked || turn.Level != level {
			t.Fatalf("picked level %d (%v), want %d", turn.Level, outcome, level)
		}
		return turn
	}
	q.Settle(pick(0), 1000)
	q.Settle(pick(0), 1000)
	yielded := pick(1)
	open := pick(0)
	q.Refund(yielded)
	q.Sleep(1, "k")
	if level, _, _ := q.Peek(); level != 2 {
		t.Fatalf("level %d is next, want the yield to go to 2", level)
	}
	last := pick(2)
	q.Settle(open, 1000)
	q.Settle(last, 1000)
	q.Settle(pick(0), 1000)
	q.Settle(pick(0), 1000)
	pick(2)
}

// Settled and refunded turns are not counted twice, nor are those of nobody.
func TestTurnsCloseOnce(t *testing.T) {
	for _, guard := range []int{0, 5} {
		q := New(2, guard, 1)
		q.Wake(0, "a", 1000)
		q.Wake(1, "b", 1000)
		first, _ := q.Pick()
		second, _ := q.Pick()
		if !q.Settle(first, 1000) || !q.Refund(second) {
			t.Fatal("not open")
		}
		if q.Settle(first, 1000) || q.Refund(first) || q.Settle(second, 1000) || q.Refund(Turn{}) || q.Unsettled() != 0 {
			t.Errorf("guard %d: a turn was closed twice", guard)
		}
		if guard > 0 && q.Snapshot()[0].Yields != 1 {
			t.Errorf("counted %d", q.Snapshot()[0].Yields)
		}
	}
}

// While a level has work, it or a lower one runs at least once in (N+1)^level
// deliveries, itself at least once in twice as many (it may have to pass one turn
// on), and never twice in a row if a higher one has work: whatever others do.
func TestEveryLevelIsHelped(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 10))
		guard := 1 + rnd.IntN(4)
		q := New(4, guard, seed)
		target := 1 + rnd.IntN(3)
		q.Wake(target, "deep", 1000)
		longest := 1
		for range target {
			longest *= guard + 1
		}
		gap, own, last := 0, 0, -1
		for range 5000 {
			if rnd.IntN(3) == 0 { // another one comes or goes
				if level := rnd.IntN(4); level != target {
					if rnd.IntN(3) > 0 {
						q.Wake(level, "flaps", 1000)
					} else {
						q.Sleep(level, "flaps")
					}
				}
			}
			turn, _ := q.Pick()
			q.Settle(turn, turn.Weight)
			top := 0
			for q.Active(top) == 0 {
				top++
			}
			if turn.Level == target && last == target && top < target {
				t.Fatalf("seed %d, guard %d: level %d ran twice in a row above level %d", seed, guard, target, top)
			}
			gap, own = gap+1, own+1
			if turn.Level >= target {
				gap = 0
			}
			if turn.Level == target {
				own = 0
			}
			if gap >= longest || own >= 2*longest {
				t.Fatalf("seed %d, guard %d: level %d waited for %d deliveries, and with those below for %d, want less than %d and %d",
					seed, guard, target, own, gap, 2*longest, longest)
			}
			last = turn.Level
		}
	}
}

// Where a yield goes to a level that turns out to be empty, the turns picked
// behind it stand in for it until the next pick. Whoever needs the order of
// single takes there too asks again with the messages in hand.
func TestYieldThatFindsNothing(t *testing.T) {
	fill := func() *world {
		w := newWorld(New(3, 10, 1))
		w.publish(0, "k", 30)
		w.publish(1, "k", 1)
		w.publish(2, "k", 2)
		return w
	}
	for _, size := range []int{1, 2, 8, 33, 64} {
		w := fill()
		var got []lane
		for len(got) < 33 {
			got = append(got, w.pullReplayed(size)...)
		}
		if want := "H×10 M H×10 L H×10 L"; brief(got) != want {
			t.Errorf("replayed, pulls of %d: %s, want %s", size, brief(got), want)
		}
	}
	if got, want := brief(fill().pull(64)), "H×10 M H×20 L×2"; got != want {
		t.Errorf("without replay: %s, want the yields late but not lost: %s", got, want)
	}
}

// The journal tells turns of one key apart: one that was settled is not taken
// again in the place of another, now or after all were closed in between.
func TestTurnsOfOneKeyAreToldApart(t *testing.T) {
	q := New(2, 5, 1)
	q.Wake(0, "a", 1000)
	first, _ := q.Pick()
	second, _ := q.Pick()
	if !q.Settle(second, 1000) || q.Settle(second, 1000) || !q.Settle(first, 1000) {
		t.Error("a second settlement took another turn's place")
	}
	third, _ := q.Pick()
	if q.Refund(first) || q.Settle(second, 1000) || !q.Settle(third, 1000) {
		t.Error("an old turn took a new one's place")
	}
}

// Random backlogs, guards, arrivals and pull sizes against the oracle: the order
// of levels is that of single takes, exactly, also where yields go to levels that
// turn out to be empty.
func TestGuardAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.IntRange(1, 5).Draw(t, "levels")
		guard := rapid.IntRange(0, 4).Draw(t, "guard")
		size := rapid.SampledFrom([]int{1, 2, 8, 64}).Draw(t, "size")
		w, o := newWorld(New(levels, guard, 7)), newOracle(levels, guard)
		for range rapid.IntRange(1, 6).Draw(t, "bursts") {
			for range rapid.IntRange(0, 4).Draw(t, "arrivals") {
				level, n := rapid.IntRange(0, levels-1).Draw(t, "level"), rapid.IntRange(1, 30).Draw(t, "n")
				w.publish(level, "k", n)
				o.publish(level, n)
			}
			left := 64
			for left > 0 {
				got := w.pullReplayed(min(size, left))
				for _, l := range got {
					if want := o.take(); l.level != want {
						t.Fatalf("level %d, want %d, in %v", l.level, want, got)
					}
				}
				if len(got) == 0 {
					break
				}
				left -= len(got)
			}
			if left > 0 && o.take() != -1 {
				t.Fatal("idle although messages wait")
			}
		}
	})
}

// The levels, keys and all are the same whatever the size of the pulls.
func TestBatchesEqualSingles(t *testing.T) {
	for seed := range uint64(150) {
		single := history(seed, 1, (*world).pullReplayed)
		if got := history(seed, 1, (*world).pull); !slices.Equal(got, single) {
			t.Fatalf("seed %d: single takes differ by the way they are made", seed)
		}
		for _, size := range []int{2, 8, 64} {
			if got := history(seed, size, (*world).pullReplayed); !slices.Equal(got, single) {
				t.Fatalf("seed %d, pulls of %d:\n%v\nsingles:\n%v", seed, size, got, single)
			}
			// Strict levels need no replay.
			if seed%3 == 0 {
				if got := history(seed, size, (*world).pull); !slices.Equal(got, single) {
					t.Fatalf("seed %d, strict, pulls of %d:\n%v\nsingles:\n%v", seed, size, got, single)
				}
			}
		}
	}
}

func history(seed uint64, size int, pull func(*world, int) []lane) []lane {
	rnd := rand.New(rand.NewPCG(seed, 8))
	guard := int(seed % 3 * 2)
	w := newWorld(New(4, guard, seed))
	var got []lane
	for range 10 {
		for range rnd.IntN(6) {
			w.publish(rnd.IntN(4), fmt.Sprint(rnd.IntN(5)), 1+rnd.IntN(25))
		}
		for left := 64; left > 0; {
			more := pull(w, min(size, left))
			if len(more) == 0 {
				break
			}
			got = append(got, more...)
			left -= len(more)
		}
	}
	return got
}

// Another guard acts on what levels have had already, and leaves the tenants' shares alone.
func TestTheGuardChangesUnderWork(t *testing.T) {
	fresh := func(guard int) *world {
		w := newWorld(New(2, guard, 1))
		w.publish(0, "a", 100)
		w.publish(1, "a", 100)
		return w
	}
	for _, c := range []struct {
		before, after, had int
		want               string // the next 12
	}{
		{10, 3, 6, "M H×3 M H×3 M H×3"},
		{10, 8, 6, "H×2 M H×8 M"},
		{3, 10, 2, "H×8 M H×3"},
		{3, 0, 2, "H×12"},
		{0, 4, 6, "H×4 M H×4 M H×2"},
	} {
		w := fresh(c.before)
		w.pull(c.had)
		if !w.q.SetGuard(c.after) {
			t.Fatal("refused without an open turn")
		}
		if got := brief(w.pull(12)); got != c.want {
			t.Errorf("guard %d -> %d after %d: %s, want %s", c.before, c.after, c.had, got, c.want)
		}
	}
	w := fresh(10)
	turn, _ := w.q.Pick()
	if w.q.SetGuard(3) {
		t.Error("changed under an open turn")
	}
	if !w.q.Settle(turn, 1000) || !w.q.SetGuard(3) {
		t.Error("the turn cannot be settled, or the guard not changed afterwards")
	}
}
