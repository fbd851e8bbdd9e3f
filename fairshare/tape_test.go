package fairshare

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A tape is a program for a Picker: each operation is a byte, and each operand
// the byte after it. Any tape is a valid program, so that fuzzing can make them
// up. The machine runs it on the Picker and on the oracle, and compares
// everything that can be seen after each step.
//
// With exact weights, those whose turns cost a whole number of units, both must
// agree in all things. With arbitrary weights integers and rationals differ by
// roundings; then what the Picker chooses must be within a rounding of the best.
type machine struct {
	t     failer
	p     *Picker
	o     *oracle
	turns []Turn // open
	exact bool
	steps int64
	log   []string
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var (
	tapeKeys     = []string{"", "a", "b", "c", "long-tenant-name", "é"}
	exactWeights = []Weight{1000, 2000, 3000, 500, 1, MaxWeight, 7000, 250, 0}
)

func runTape(t failer, tape []byte, exact bool) {
	t.Helper()
	m := &machine{t: t, p: New(42), o: newOracle(42), exact: exact}
	for len(tape) >= 2 {
		m.step(tape[0], tape[1])
		m.compare()
		tape = tape[2:]
	}
}

func (m *machine) weight(operand byte) Weight {
	if m.exact {
		return exactWeights[int(operand)%len(exactWeights)]
	}
	x := mix(uint64(operand))
	return []Weight{Weight(x % 1_000_000), Weight(x % 4000), Weight(x % 9), -1}[x>>60%4]
}

func (m *machine) step(op, operand byte) {
	key := tapeKeys[int(operand)%len(tapeKeys)]
	w := m.weight(operand / byte(len(tapeKeys)))
	switch op % 12 {
	case 0, 1:
		m.say("wake %q %d", key, w)
		m.p.Wake(key, w)
		m.o.wake(key, w)
	case 2:
		m.say("sleep %q", key)
		m.p.Sleep(key)
		m.o.sleep(key)
	case 3:
		m.say("weight %q %d", key, w)
		m.p.SetWeight(key, w)
		m.o.setWeight(key, w)
	case 4, 5, 6:
		for range 1 + operand%4 {
			m.pick()
		}
	case 7, 8, 9:
		m.close(operand, w)
	case 10:
		m.say("hold %q", key)
		m.p.Hold(key)
		m.o.hold(key, true)
	case 11:
		m.say("unhold %q", key)
		m.p.Unhold(key)
		m.o.hold(key, false)
	}
}

func (m *machine) pick() {
	wantKey, want := m.o.next()
	peeked, peek := m.p.Peek()
	turn, got := m.p.Pick()
	m.say("pick: %q %v", turn.Key, got)
	if peek != got || (got == Picked && peeked != turn.Key) {
		m.fail("peek said %q %v, pick says %q %v", peeked, peek, turn.Key, got)
	}
	if m.exact && (got != want || (got == Picked && turn.Key != wantKey)) {
		m.fail("picked %q %v, want %q %v", turn.Key, got, wantKey, want)
	}
	if (got == Idle) != (want == Idle) {
		m.fail("picked %q %v, want %q %v", turn.Key, got, wantKey, want)
	}
	if got != Picked {
		return
	}
	if late := new(big.Rat).Sub(m.o.tentative(turn.Key), m.o.tentative(wantKey)); late.Cmp(m.rounding()) > 0 {
		m.fail("picked %q, whose pass is %v behind that of %q", turn.Key, late, wantKey)
	}
	if k := m.o.keys[turn.Key]; turn.Weight != k.weight || k.held {
		m.fail("picked %q at %d (held: %v), want %d", turn.Key, turn.Weight, k.held, k.weight)
	}
	m.o.pick(turn.Key)
	m.turns = append(m.turns, turn)
}

// close settles or refunds one of the open turns, mostly the oldest, and tries
// to do so again when that can be recognised.
func (m *machine) close(operand byte, w Weight) {
	if len(m.turns) == 0 {
		return
	}
	i := 0
	if operand >= 192 {
		i = int(operand) % len(m.turns)
	}
	turn := m.turns[i]
	m.turns = append(m.turns[:i:i], m.turns[i+1:]...)
	if operand%3 == 0 {
		w = turn.Weight
	}
	settle := operand%4 != 0
	ok := false
	if settle {
		m.say("settle %q %d as %d", turn.Key, turn.Weight, w)
		ok = m.p.Settle(turn, w)
		m.o.settle(turn.Key, turn.Weight, w)
	} else {
		m.say("refund %q %d", turn.Key, turn.Weight)
		ok = m.p.Refund(turn)
		m.o.refund(turn.Key, turn.Weight)
	}
	if !ok {
		m.fail("the turn of %q was not open", turn.Key)
	}
	if k := m.o.keys[turn.Key]; k == nil || len(k.open) == 0 {
		if m.p.Settle(turn, w) || m.p.Refund(turn) {
			m.fail("the turn of %q was settled twice", turn.Key)
		}
	}
}

// compare checks all that can be seen.
func (m *machine) compare() {
	m.steps++
	active := 0
	for _, key := range tapeKeys {
		k := m.o.keys[key]
		if k != nil && k.active {
			active++
		}
		if got := m.p.Contains(key); got != (k != nil && k.active) {
			m.fail("contains %q: %v", key, got)
		}
	}
	if m.p.Active() != active || m.p.Unsettled() != len(m.turns) {
		m.fail("%d active, %d unsettled, want %d and %d", m.p.Active(), m.p.Unsettled(), active, len(m.turns))
	}
	snapshot := m.p.Snapshot()
	for i, s := range snapshot {
		k := m.o.keys[s.Key]
		if k == nil || k.active != s.Active || k.held != s.Held || len(k.open) != s.Unsettled || k.weight != s.Weight {
			m.fail("snapshot: %+v, want %+v", s, k)
		}
		off := new(big.Rat).Sub(m.o.ahead(s.Key), big.NewRat(s.Ahead, TurnCost))
		if off.Abs(off).Cmp(m.rounding()) > 0 {
			m.fail("snapshot: %+v, want ahead %v", s, m.o.ahead(s.Key))
		}
		if i > 0 && (snapshot[i-1].Ahead > s.Ahead || (snapshot[i-1].Ahead == s.Ahead && tie(42, snapshot[i-1].Key) > tie(42, s.Key))) {
			m.fail("snapshot out of order: %+v before %+v", snapshot[i-1], s)
		}
	}
	m.checkForgotten(snapshot)
}

// checkForgotten: what the Picker does not remember is what must not matter.
func (m *machine) checkForgotten(snapshot []KeyState) {
	known := map[string]bool{}
	for _, s := range snapshot {
		known[s.Key] = true
	}
	for name, k := range m.o.keys {
		debt := new(big.Rat).Sub(k.own, m.o.virtual)
		if !known[name] && (k.active || len(k.open) > 0 || debt.Cmp(m.rounding()) > 0) {
			m.fail("%q was forgotten with a debt of %v", name, debt)
		}
		open := len(m.turns) > 0
		if known[name] && !open && !k.active && new(big.Rat).Neg(debt).Cmp(m.rounding()) > 0 {
			m.fail("%q is remembered without a debt (%v)", name, debt)
		}
	}
}

// rounding is what integers may be off by so far: a few units per step.
func (m *machine) rounding() *big.Rat {
	if m.exact {
		return new(big.Rat)
	}
	return big.NewRat(8*(m.steps+1), TurnCost)
}

func (m *machine) say(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *machine) fail(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.log {
		format += "\n  " + line
	}
	m.t.Fatalf(format, args...)
}

func TestTapesAgreeWithTheOracle(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tape := make([]byte, 2*(1+rnd.IntN(150)))
		for i := range tape {
			tape[i] = byte(rnd.Uint32())
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			runTape(t, tape, seed%3 != 0)
		})
	}
}

// The same through rapid, which shrinks a failing tape to the shortest.
func TestTapesShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := rapid.Bool().Draw(t, "exact")
		// The length is drawn apart: left to itself rapid makes tapes of a few bytes.
		n := 2 * rapid.IntRange(0, 100).Draw(t, "steps")
		runTape(t, rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "tape"), exact)
	})
}

func FuzzTape(f *testing.F) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		tape := make([]byte, 120)
		for i := range tape {
			tape[i] = byte(rnd.Uint32())
		}
		f.Add(tape, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, tape []byte, exact bool) {
		if len(tape) > 400 {
			tape = tape[:400]
		}
		runTape(t, tape, exact)
	})
}
