package fairshare

import (
	"fmt"
	"testing"
)

// kept counts what a Picker holds on to.
func kept(p *Picker) (entries, slots int) {
	return len(p.keys) + len(p.free), cap(p.active.items) + cap(p.resting.items)
}

// Ten thousand tenants come, are served, and go: nothing stays.
func TestMemoryFollowsActiveKeys(t *testing.T) {
	p := New(1)
	for k := range 10_000 {
		p.Wake(fmt.Sprintf("tenant-%d", k), One)
	}
	for {
		turn, outcome := p.Pick()
		if outcome != Picked {
			break
		}
		p.Settle(turn, One)
		p.Sleep(turn.Key)
	}
	if entries, slots := kept(p); entries > maxFree || slots > 2*trimAbove || p.peak > trimAbove || len(p.keys) != 0 {
		t.Errorf("%d entries, %d heap slots, map for %d keys after all have gone", entries, slots, p.peak)
	}
}

// The same beside a tenant whose backlog never ends, so that no busy period
// ends either: what is kept are the active keys, and those in debt.
func TestMemoryFollowsDebts(t *testing.T) {
	p := New(1)
	p.Wake("busy", One)
	for k := range 10_000 {
		key := fmt.Sprintf("tenant-%d", k)
		p.Wake(key, One)
		for {
			turn, _ := p.Pick()
			p.Settle(turn, One)
			if turn.Key == key {
				break
			}
		}
		p.Sleep(key)
		// A debt of one turn is gone once the busy one has had a turn or two.
		if k%2 == 1 {
			turn, _ := p.Pick()
			p.Settle(turn, One)
		}
		if entries, slots := kept(p); entries > 8+maxFree || slots > 64 {
			t.Fatalf("%d entries and %d heap slots after %d tenants", entries, slots, k)
		}
	}
}

// A crowd leaves and one stays: the maps and heaps shrink, and go on working.
func TestMemoryIsTrimmedInsideABusyPeriod(t *testing.T) {
	p := New(1)
	p.Wake("busy", One)
	for k := range 10_000 {
		p.Wake(fmt.Sprint(k), One)
	}
	for k := range 10_000 {
		p.Sleep(fmt.Sprint(k))
	}
	if entries, slots := kept(p); entries > 1+maxFree || slots > 2*trimAbove || p.peak > trimAbove {
		t.Errorf("%d entries, %d heap slots, map for %d keys", entries, slots, p.peak)
	}
	if got := take(t, p, 3); got[2] != "busy" || !p.Contains("busy") {
		t.Errorf("%v", got)
	}
}

// Where every message has a key of its own, all keys start at the same virtual
// time; the bound on debts is what keeps the memory bounded.
func TestDebtsAreBounded(t *testing.T) {
	p := New(1)
	p.maxDebts = 100
	p.Wake("busy", One)
	take(t, p, 2)
	for k := range 5000 {
		key := fmt.Sprint("new-", k)
		p.Wake(key, One)
		p.Settle(mustPick(t, p, key), One)
		p.Sleep(key)
		if len(p.keys) > 1+p.maxDebts {
			t.Fatalf("%d keys remembered", len(p.keys))
		}
	}
}

// Passes are moved back before they overflow; shares do not notice.
func TestPassesAreRebased(t *testing.T) {
	t.Run("lone key of the smallest weight", func(t *testing.T) {
		p := New(1)
		p.Wake("lone", MinWeight)
		for i := range 10_000_000 {
			turn, _ := p.Pick()
			if !p.Settle(turn, MinWeight) || p.virtual >= rebaseAbove {
				t.Fatalf("virtual time %d after %d turns", p.virtual, i)
			}
		}
		if s, _ := state(p, "lone"); s.Ahead != scale/int64(MinWeight) {
			t.Errorf("%+v, want one turn ahead", s)
		}
	})
	t.Run("shares", func(t *testing.T) {
		a, b := New(1), New(1)
		b.virtual = rebaseAbove - 50*uint64(scale)/1000
		for _, p := range []*Picker{a, b} {
			p.Wake("x", 1000)
			p.Wake("y", 3000)
			p.Wake("z", 7)
			p.Wake("rests", 1)
		}
		for i := range 3000 {
			x, _ := a.Pick()
			y, _ := b.Pick()
			if x.Key != y.Key {
				t.Fatalf("turn %d: %q, and near the end of the numbers %q", i, x.Key, y.Key)
			}
			a.Settle(x, x.Weight)
			b.Settle(y, y.Weight)
			if x.Key == "rests" {
				a.Sleep(x.Key)
				b.Sleep(x.Key)
			}
		}
		if b.virtual > rebaseAbove/2 {
			t.Error("was not rebased")
		}
		for i, s := range a.Snapshot() {
			if got := b.Snapshot()[i]; got != s {
				t.Errorf("%+v, and rebased %+v", s, got)
			}
		}
	})
}

// A key that is only ever refunded, and lies ever further back, stays first.
func TestRebaseKeepsStragglersFirst(t *testing.T) {
	p := New(1)
	p.Wake("straggler", One)
	p.Wake("busy", MinWeight)
	// As if busy had been settled in batches while straggler was refunded in each.
	p.virtual = rebaseAbove
	p.keys["busy"].settled = at(rebaseAbove)
	p.keys["busy"].tentative = at(rebaseAbove)
	p.active.fix(p.keys["busy"])
	p.rebase()
	if key, _ := p.Peek(); key != "straggler" || p.virtual != lag {
		t.Errorf("%q is first at virtual time %d", key, p.virtual)
	}
}

func TestNoAllocations(t *testing.T) {
	p := New(1)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		p.Wake(keys[i], Weight(1+i))
	}
	var turns [64]Turn
	if n := testing.AllocsPerRun(200, func() {
		for i := range turns {
			turns[i], _ = p.Pick()
		}
		for i, turn := range turns {
			if i%5 == 0 {
				p.Refund(turn)
			} else {
				p.Settle(turn, Weight(1+i))
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
	q := New(1)
	if n := testing.AllocsPerRun(200, func() {
		q.Wake("acme", One)
		turn, _ := q.Pick()
		q.Settle(turn, One)
		q.Sleep("acme")
	}); n != 0 {
		t.Errorf("%v allocations per flap", n)
	}
}
