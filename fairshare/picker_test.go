package fairshare

import (
	"slices"
	"testing"
)

// take picks and settles n turns, and gives their keys.
func take(t *testing.T, p *Picker, n int) []string {
	t.Helper()
	var keys []string
	for range n {
		turn, outcome := p.Pick()
		if outcome != Picked {
			t.Fatalf("%v after %v", outcome, keys)
		}
		p.Settle(turn, turn.Weight)
		keys = append(keys, turn.Key)
	}
	return keys
}

func mustPick(t *testing.T, p *Picker, key string) Turn {
	t.Helper()
	turn, outcome := p.Pick()
	if outcome != Picked || turn.Key != key {
		t.Fatalf("picked %q (%v), want %q", turn.Key, outcome, key)
	}
	return turn
}

func state(p *Picker, key string) (KeyState, bool) {
	for _, s := range p.Snapshot() {
		if s.Key == key {
			return s, true
		}
	}
	return KeyState{}, false
}

func TestEmpty(t *testing.T) {
	var p Picker
	p.Sleep("a")
	p.SetWeight("a", One)
	p.Hold("a")
	p.Unhold("a")
	if turn, outcome := p.Pick(); outcome != Idle || turn != (Turn{}) {
		t.Errorf("picked %v %v", turn, outcome)
	}
	if _, outcome := p.Peek(); outcome != Idle {
		t.Errorf("peek: %v", outcome)
	}
	if p.Settle(Turn{}, One) || p.Refund(Turn{}) || p.Active() != 0 || len(p.Snapshot()) != 0 {
		t.Error("something came of nothing")
	}
}

func TestInvalidWeightsCountAsOne(t *testing.T) {
	for _, bad := range []Weight{0, -1, MaxWeight + 1, -1 << 31, 1<<31 - 1} {
		p := New(1)
		p.Wake("bad", bad)
		p.Wake("one", One)
		for range 20 {
			turn, _ := p.Pick()
			if turn.Weight != One {
				t.Fatalf("%d was charged as %d", bad, turn.Weight)
			}
			p.Settle(turn, bad)
		}
		p.SetWeight("bad", bad)
		a, _ := state(p, "bad")
		b, _ := state(p, "one")
		if a.Ahead != b.Ahead || a.Weight != One {
			t.Errorf("weight %d: %+v, and of weight one: %+v", bad, a, b)
		}
	}
}

// Debts outlive sleep for as long as somebody waits, and not a turn longer.
func TestDebtIsRememberedUntilVirtualTimePasses(t *testing.T) {
	p := New(1)
	p.Wake("busy", One)
	take(t, p, 3)
	p.Wake("light", 250) // a turn costs four of the other's
	for {
		if take(t, p, 1)[0] == "light" {
			break
		}
	}
	p.Sleep("light")
	if s, ok := state(p, "light"); !ok || s.Active || s.Ahead != 4*TurnCost {
		t.Fatalf("asleep: %+v, want a debt of four turns", s)
	}
	take(t, p, 3)
	if _, ok := state(p, "light"); !ok {
		t.Fatal("the debt was forgotten too soon")
	}
	take(t, p, 3)
	if s, ok := state(p, "light"); ok {
		t.Fatalf("still remembered: %+v", s)
	}
}

func TestReturningWithDebtWaits(t *testing.T) {
	p := New(1)
	p.Wake("busy", One)
	take(t, p, 1)
	p.Wake("light", 100)
	for take(t, p, 1)[0] != "light" {
	}
	p.Sleep("light")
	p.Wake("light", 100)
	got := take(t, p, 11)
	if i := slices.Index(got, "light"); i < 9 {
		t.Errorf("back after %d deliveries of the other, want its turn to have cost ten: %v", i, got)
	}
}

func TestSleeperStartsAtVirtualTime(t *testing.T) {
	p := New(1)
	p.Wake("busy", One)
	p.Wake("sleeper", One)
	take(t, p, 2)
	p.Sleep("sleeper")
	take(t, p, 1000)
	p.Wake("sleeper", One)
	if n := counts(take(t, p, 20))["sleeper"]; n < 9 || n > 11 {
		t.Errorf("the sleeper got %d of 20", n)
	}
}

// A refund undoes the charge, whatever happened to the weight in between.
func TestRefundUndoesTheCharge(t *testing.T) {
	for _, to := range []Weight{One, 1, 7, 3000, 999_983, MaxWeight} {
		p := New(1)
		p.Wake("a", 3)
		p.Wake("b", One)
		take(t, p, 10)
		before := p.Snapshot()
		var turns []Turn
		for range 5 {
			turn, _ := p.Pick()
			turns = append(turns, turn)
			p.SetWeight("a", to)
		}
		for _, turn := range turns {
			if !p.Refund(turn) {
				t.Fatal("not open")
			}
		}
		p.SetWeight("a", 3)
		if after := p.Snapshot(); !slices.Equal(before, after) {
			t.Errorf("weight %d:\n%+v\n%+v", to, before, after)
		}
	}
}

// Roundings of turns that change their weight do not add up.
func TestRoundingsDoNotAddUp(t *testing.T) {
	p := New(1)
	p.Wake("a", 7)
	before := p.Snapshot()
	for range 20_000 {
		first := mustPick(t, p, "a")
		p.SetWeight("a", 999_983)
		second := mustPick(t, p, "a")
		p.SetWeight("a", 7)
		p.Refund(first)
		p.Refund(second)
	}
	if after := p.Snapshot(); !slices.Equal(before, after) {
		t.Errorf("%+v, want %+v", after, before)
	}
}

// What happens to turns whose key goes, comes back, or is gone for good.
func TestTurnsOutliveSleep(t *testing.T) {
	t.Run("settled after sleep", func(t *testing.T) {
		p := New(1)
		p.Wake("a", One)
		p.Wake("z", One)
		turn, _ := p.Pick()
		p.Sleep(turn.Key)
		if !p.Settle(turn, One) {
			t.Fatal("not open")
		}
		if s, ok := state(p, turn.Key); !ok || s.Ahead != TurnCost || s.Active {
			t.Errorf("%+v, want its debt remembered", s)
		}
	})
	t.Run("refunded after sleep", func(t *testing.T) {
		p := New(1)
		p.Wake("a", One)
		p.Wake("z", One)
		turn, _ := p.Pick()
		p.Sleep(turn.Key)
		p.Refund(turn)
		if s, ok := state(p, turn.Key); ok {
			t.Errorf("%+v, want nothing remembered", s)
		}
	})
	t.Run("awake again before the refund", func(t *testing.T) {
		p := New(1)
		p.Wake("a", One)
		p.Wake("b", One)
		first, _ := p.Pick()
		p.Sleep(first.Key)
		p.Wake(first.Key, One)
		if s, _ := state(p, first.Key); s.Ahead != TurnCost || s.Unsettled != 1 {
			t.Errorf("awake: %+v, want the open turn still charged", s)
		}
		p.Refund(first)
		if s, _ := state(p, first.Key); s.Ahead != 0 {
			t.Errorf("refunded: %+v", s)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		p := New(1)
		p.Wake("a", One)
		turn := mustPick(t, p, "a")
		p.Settle(turn, One)
		p.Sleep("a")    // the busy period is over
		p.Wake("b", 10) // takes the entry that a had
		p.Refund(mustPick(t, p, "b"))
		open := mustPick(t, p, "b")
		if p.Settle(turn, One) || p.Refund(turn) || turn.Open() {
			t.Error("a turn of a forgotten key was taken")
		}
		if s, _ := state(p, "b"); s.Unsettled != 1 {
			t.Errorf("and charged to another: %+v", s)
		}
		if !p.Refund(open) {
			t.Error("the other one's turn was lost")
		}
	})
}

// A turn that is refunded twice takes back what another one of its key was charged, and no more: its key never comes to stand
// before the place that it has paid for.
func TestATurnThatIsRefundedTwiceFavoursNobody(t *testing.T) {
	p := New(1)
	p.Wake("a", One)
	mustPick(t, p, "a")
	mustPick(t, p, "a")
	p.SetWeight("a", MinWeight)
	dear := mustPick(t, p, "a")
	for range 2 {
		p.Refund(dear)
		if s, _ := state(p, "a"); s.Ahead < 0 {
			t.Errorf("%+v: it lies before where it began", s)
		}
	}
}

// The busy period ends when nobody has work and all turns are settled, no
// sooner: an open turn may still bring a message, and its debt then counts.
func TestEndOfBusyPeriod(t *testing.T) {
	p := New(1)
	p.Wake("a", One)
	p.Wake("b", One)
	first, _ := p.Pick()
	p.Settle(first, One)
	second, _ := p.Pick()
	p.Sleep("a")
	p.Sleep("b")
	if s, ok := state(p, first.Key); !ok || s.Ahead != TurnCost {
		t.Fatalf("with an open turn: %+v, want the debt of %q kept", s, first.Key)
	}
	p.Wake(first.Key, One)
	if s, _ := state(p, first.Key); s.Ahead != TurnCost {
		t.Errorf("back before the end: %+v, want its debt", s)
	}
	p.Sleep(first.Key)
	p.Settle(second, One)
	if n := len(p.Snapshot()); n != 0 {
		t.Errorf("%d keys after the end", n)
	}
}

func TestHoldBlocksInOrder(t *testing.T) {
	p := New(1)
	p.Wake("a", One)
	p.Wake("b", One)
	head, _ := p.Peek()
	other := map[string]string{"a": "b", "b": "a"}[head]
	p.Hold(other) // not its turn yet
	turn := mustPick(t, p, head)
	if key, outcome := p.Peek(); key != other || outcome != Blocked {
		t.Errorf("peek: %q %v", key, outcome)
	}
	if got, outcome := p.Pick(); outcome != Blocked || got != (Turn{}) {
		t.Errorf("picked %v %v, want it blocked by %q", got, outcome, other)
	}
	p.Settle(turn, One)
	if p.Active() != 2 || !p.Contains(other) {
		t.Error("a held key counts as active")
	}
	p.Unhold(other)
	mustPick(t, p, other)
	p.Hold(other)
	p.Sleep(other)
	p.Wake(other, One)
	if s, _ := state(p, other); s.Held {
		t.Error("sleep did not end the hold")
	}
}

func TestTooManyUnsettledTurnsBlock(t *testing.T) {
	p := New(1)
	p.Wake("a", MinWeight)
	p.Wake("b", MaxWeight)
	var last Turn
	for range 2 * maxUnsettled {
		turn, outcome := p.Pick()
		if outcome == Blocked {
			break
		}
		last = turn
	}
	if _, outcome := p.Pick(); outcome != Blocked {
		t.Fatalf("%v after %d turns", outcome, p.Unsettled())
	}
	p.Refund(last)
	mustPick(t, p, last.Key)
}

func TestOutcomeNames(t *testing.T) {
	for outcome, want := range map[Outcome]string{Idle: "idle", Picked: "picked", Blocked: "blocked", 9: "unknown outcome"} {
		if got := outcome.String(); got != want {
			t.Errorf("%d: %q", outcome, got)
		}
	}
}
