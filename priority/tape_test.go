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
	var turns []Turn
	var log string
	for tape = tape[2:]; len(tape) >= 2; tape = tape[2:] {
		op, operand := tape[0]%10, int(tape[1])
		level, key := operand%levels, string(rune('a'+operand/levels%3))
		switch {
		case op < 2:
			log += fmt.Sprintf("\n  wake %d %s", level, key)
			q.Wake(level, key, Weight(operand*100))
		case op == 2:
			log += fmt.Sprintf("\n  sleep %d %s", level, key)
			q.Sleep(level, key)
		case op < 6:
			want := r.next()
			peeked, _, _ := q.Peek()
			turn, outcome := q.Pick()
			log += fmt.Sprintf("\n  pick: %d %v", turn.Level, outcome)
			if (outcome == Idle) != (want < 0) || (want >= 0 && (turn.Level != want || peeked != want)) {
				t.Fatalf("level %d (%v, peeked %d), want %d%s", turn.Level, outcome, peeked, want, log)
			}
			if outcome == Picked {
				turns = append(turns, turn)
				r.open = append(r.open, turn.Level)
			}
		case len(turns) > 0:
			i := 0
			if op == 9 {
				i = operand % len(turns)
			}
			turn, refund := turns[i], operand%3 == 0
			turns = slices.Delete(turns, i, i+1)
			r.open = slices.Delete(r.open, i, i+1)
			log += fmt.Sprintf("\n  close %d (turn %d of the open), refund: %v", turn.Level, i, refund)
			ok := false
			if refund {
				ok = q.Refund(turn)
			} else {
				ok = q.Settle(turn, turn.Weight)
				r.count(r.settled, turn.Level)
			}
			if !ok {
				t.Fatalf("the turn was not open%s", log)
			}
		}
		total := 0
		for l, s := range q.Snapshot() {
			if r.work[l] = q.levels[l].Active(); r.work[l] != s.Active || (limit > 0 && s.Yields != r.settled[l]) {
				t.Fatalf("level %d: %+v, want %d yields%s", l, s, r.settled[l], log)
			}
			total += q.levels[l].Unsettled()
		}
		if total != len(turns) || q.Unsettled() != total {
			t.Fatalf("%d open turns (%d), want %d%s", total, q.Unsettled(), len(turns), log)
		}
	}
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
		runTape(t, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "tape"))
	})
}

func FuzzTape(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomTape(seed))
	}
	f.Fuzz(func(t *testing.T, tape []byte) { runTape(t, tape[:min(len(tape), 600)]) })
}
