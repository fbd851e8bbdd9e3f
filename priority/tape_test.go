package priority

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A tape is a program for a Queue, two bytes an operation; any tape is valid.
// The reference keeps what was settled and the open turns in pick order, and
// works the counts out from the start whenever it is asked who is next.
type reference struct {
	limit   int
	settled []int
	open    []int // levels, in the order of the picks
	work    []int // active keys per level
}

func (r *reference) lower(level int) int {
	for l := level + 1; l < len(r.work); l++ {
		if r.work[l] > 0 {
			return l
		}
	}
	return -1
}

func (r *reference) count(counts []int, level int) {
	if r.lower(level) >= 0 {
		counts[level] = min(r.limit, counts[level]+1)
	}
	for h := range level {
		counts[h] = 0
	}
}

func (r *reference) next() int {
	counts := slices.Clone(r.settled)
	for _, level := range r.open {
		r.count(counts, level)
	}
	level := r.lower(-1)
	for level >= 0 && r.limit > 0 && counts[level] >= r.limit && r.lower(level) >= 0 {
		level = r.lower(level)
	}
	return level
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func runTape(t fataler, tape []byte) {
	if len(tape) < 2 {
		return
	}
	levels, limit := 1+int(tape[0]%6), int(tape[1]%5)
	q := New(levels, limit, 3)
	r := &reference{limit: limit, settled: make([]int, levels), work: make([]int, levels)}
	m := &machine{t: t, q: q, r: r}
	for tape = tape[2:]; len(tape) >= 2; tape = tape[2:] {
		m.step(tape[0]%10, int(tape[1]))
		m.compare()
	}
}

// machine runs a tape on both.
type machine struct {
	t     fataler
	q     *Queue
	r     *reference
	turns []Turn // open
	log   string
}

func (m *machine) step(op byte, operand int) {
	levels := m.q.Levels()
	level, key := operand%levels, string(rune('a'+operand/levels%3))
	switch {
	case op < 2:
		m.say("wake %d %s", level, key)
		m.q.Wake(level, key, Weight(operand*100))
	case op == 2:
		m.say("sleep %d %s", level, key)
		m.q.Sleep(level, key)
	case op < 6:
		m.pick()
	case len(m.turns) > 0 && op < 9:
		m.close(0, operand%3 == 0)
	case len(m.turns) > 0:
		m.close(operand%len(m.turns), operand%3 == 0)
	}
}

func (m *machine) pick() {
	want := m.r.next()
	peeked, _, _ := m.q.Peek()
	turn, outcome := m.q.Pick()
	m.say("pick: %d %v", turn.Level, outcome)
	if (outcome == Idle) != (want < 0) || (want >= 0 && (turn.Level != want || peeked != want)) {
		m.t.Fatalf("level %d (%v, peeked %d), want %d%s", turn.Level, outcome, peeked, want, m.log)
	}
	if outcome == Picked {
		m.turns = append(m.turns, turn)
		m.r.open = append(m.r.open, turn.Level)
	}
}

func (m *machine) close(i int, refund bool) {
	turn := m.turns[i]
	m.turns = slices.Delete(m.turns, i, i+1)
	m.r.open = slices.Delete(m.r.open, i, i+1)
	m.say("close %d (turn %d of the open), refund: %v", turn.Level, i, refund)
	ok := false
	if refund {
		ok = m.q.Refund(turn)
	} else {
		ok = m.q.Settle(turn, turn.Weight)
		m.r.count(m.r.settled, turn.Level)
	}
	if !ok {
		m.t.Fatalf("the turn was not open%s", m.log)
	}
}

func (m *machine) compare() {
	total := 0
	for l, s := range m.q.Snapshot() {
		m.r.work[l] = m.q.levels[l].Active()
		if m.r.work[l] != s.Active || (m.r.limit > 0 && s.Yields != m.r.settled[l]) {
			m.t.Fatalf("level %d: %+v, want %d yields%s", l, s, m.r.settled[l], m.log)
		}
		total += m.q.levels[l].Unsettled()
	}
	if total != len(m.turns) || m.q.Unsettled() != total {
		m.t.Fatalf("%d open turns (%d), want %d%s", total, m.q.Unsettled(), len(m.turns), m.log)
	}
}

func (m *machine) say(format string, args ...any) {
	m.log += "\n  " + fmt.Sprintf(format, args...)
}

func randomTape(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 9))
	tape := make([]byte, 2*(1+rnd.IntN(200)))
	for i := range tape {
		tape[i] = byte(rnd.Uint32())
	}
	return tape
}

func TestTapesAgreeWithTheReference(t *testing.T) {
	for seed := range uint64(500) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { runTape(t, randomTape(seed)) })
	}
}

// The same through rapid, which shrinks a failing tape to the shortest.
func TestTapesShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The length is drawn apart: left to itself rapid makes tapes of a few bytes.
		n := 2 * rapid.IntRange(1, 200).Draw(t, "steps")
		runTape(t, rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "tape"))
	})
}

func FuzzTape(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomTape(seed))
	}
	f.Fuzz(func(t *testing.T, tape []byte) { runTape(t, tape[:min(len(tape), 600)]) })
}
