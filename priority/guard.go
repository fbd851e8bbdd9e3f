package priority

// guard is the starvation guard: per level, how many deliveries it has had since
// a lower level ran, while a lower one had work. A level whose count has reached
// the limit yields.
//
// Counts exist twice. The settled ones follow what was really delivered. The
// tentative ones are those that picks go by: settled, plus every open turn as
// if it were to be delivered. What upsets that sum (a refund, a level that gets
// or loses its work) only marks it stale; it is worked out again, at the next
// pick, from the settled counts and the journal of open turns. So a yield that
// brought nothing is due again at once.
type guard struct {
	limit     int32
	settled   []int32
	tentative []int32

	journal []mark // turns in the order of their picks
	head    int    // of the journal: what lies before is closed
	base    uint64 // number of journal[0]; numbers start at 1
	stale   bool   // tentative must be worked out again
}

// mark is one turn in the journal.
type mark struct {
	level  int32
	closed bool // settled or refunded
}

// newGuard makes the guard of a queue; nil when the limit is 0, for strict.
func newGuard(levels, limit int) *guard {
	if limit <= 0 {
		return nil
	}
	return &guard{
		limit:     int32(min(limit, 1<<30)),
		settled:   make([]int32, levels),
		tentative: make([]int32, levels),
		base:      1,
	}
}

// choose gives the level whose turn it is, when top is the highest one that has
// work: a level that has had its fill passes the turn to the next lower one with
// work, which applies the same rule. The lowest that has work keeps it.
func (g *guard) choose(top int, work levelSet) int {
	if g.stale {
		g.replay(work)
	}
	level := top
	for g.tentative[level] >= g.limit {
		lower, ok := work.from(level + 1)
		if !ok {
			break
		}
		level = lower
	}
	return level
}

// picked enters a turn and gives its number.
func (g *guard) picked(level int, work levelSet) uint64 {
	g.count(g.tentative, level, work)
	if len(g.journal) == cap(g.journal) && g.head > len(g.journal)/2 {
		g.base += uint64(g.head)
		g.journal = g.journal[:copy(g.journal, g.journal[g.head:])]
		g.head = 0
	}
	g.journal = append(g.journal, mark{level: int32(level)})
	return g.base + uint64(len(g.journal)) - 1
}

// close takes the turn out of the journal, and counts it if it was delivered. It
// reports false, and does nothing, when the turn was not open.
func (g *guard) close(number uint64, delivered bool, work levelSet) bool {
	i := number - g.base // wraps to something large when below
	if i >= uint64(len(g.journal)) || g.journal[i].closed {
		return false
	}
	g.journal[i].closed = true
	if delivered {
		g.count(g.settled, int(g.journal[i].level), work)
	}
	// Not delivered, or out of order: the open turns were counted on top of
	// something that did not come to be.
	g.stale = g.stale || !delivered || int(i) != g.head
	for g.head < len(g.journal) && g.journal[g.head].closed {
		g.head++
	}
	if g.head == len(g.journal) {
		g.base += uint64(g.head)
		g.journal, g.head = g.journal[:0], 0
	}
	return true
}

// replay works the tentative counts out again.
func (g *guard) replay(work levelSet) {
	copy(g.tentative, g.settled)
	for _, m := range g.journal[g.head:] {
		if !m.closed {
			g.count(g.tentative, int(m.level), work)
		}
	}
	g.stale = false
}

// count enters one delivery of level: a lower level has run, as all those above
// see it, and itself it has had one more, if that kept a lower one waiting.
func (g *guard) count(counts []int32, level int, work levelSet) {
	clear(counts[:level])
	if counts[level] >= g.limit {
		return
	}
	if _, waiting := work.from(level + 1); waiting {
		counts[level]++
	}
}
