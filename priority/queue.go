package priority

import "github.com/fairlead/fairlead/fairshare"

// Weight, Outcome and KeyState are those of the fair share inside a level.
type (
	Weight   = fairshare.Weight
	Outcome  = fairshare.Outcome
	KeyState = fairshare.KeyState
)

// What came of a pick; see [fairshare.Outcome].
const (
	Idle    = fairshare.Idle
	Picked  = fairshare.Picked
	Blocked = fairshare.Blocked
)

// Queue decides which level and key of one queue is next: strict between levels,
// level 0 first, softened by the starvation guard if there is one; a fair share
// between the keys inside a level. See the package comment for the rules.
//
// A Queue is a value without a clock, a lock or a goroutine. It is not safe for
// concurrent use; one goroutine owns it. It must not be copied. Make one with
// [New].
//
// Where a level is given that the queue does not have, the lowest one is meant.
type Queue struct {
	levels []fairshare.Picker
	work   levelSet // levels with an active key
	guard  *guard   // nil: strict
	open   int      // turns, neither settled nor refunded
}

// Turn is the right of one key of one level to the next message. It is settled
// or refunded once, at the Queue that gave it. The zero Turn is ignored.
type Turn struct {
	fairshare.Turn
	// Level is the level that the message is to be taken from.
	Level int

	number uint64 // in the guard's journal
}

// New makes a queue of that many levels, at least one. With a guard of N > 0, a
// level that has had N deliveries since a lower one ran yields a turn; 0 or less
// is strict. The seed makes ties between keys break in an order of this agent's
// own. Memory: a few words per level until keys wake.
func New(levels, guard int, seed uint64) *Queue {
	levels = max(levels, 1)
	q := &Queue{
		levels: make([]fairshare.Picker, levels),
		work:   newLevelSet(levels),
		guard:  newGuard(levels, guard),
	}
	for i := range q.levels {
		// Levels must not share one order: agents that meet in one would meet
		// in all.
		q.levels[i] = *fairshare.New(seed + uint64(i)*0x9e3779b97f4a7c15)
	}
	return q
}

// Levels is the number of levels.
func (q *Queue) Levels() int { return len(q.levels) }

// SetGuard changes the starvation guard; 0 or less is strict. What levels have
// had since a lower one ran still counts, at most as the new limit; after
// strictness it counts from 0. The fair shares inside the levels stay as they
// are. It reports false, and changes nothing, while a turn is open.
func (q *Queue) SetGuard(limit int) bool {
	if q.open > 0 {
		return false
	}
	old := q.guard
	q.guard = newGuard(len(q.levels), limit)
	if old != nil && q.guard != nil {
		for i, n := range old.settled {
			q.guard.settled[i] = min(n, q.guard.limit)
		}
		copy(q.guard.tentative, q.guard.settled)
	}
	return true
}

// Wake says that key is believed to have work in level, and which weight to
// expect of it; see [fairshare.Picker.Wake].
func (q *Queue) Wake(level int, key string, w Weight) {
	level = q.clamp(level)
	q.levels[level].Wake(key, w)
	q.changed(level)
}

// Sleep says that key is believed to have no work in level; see
// [fairshare.Picker.Sleep].
func (q *Queue) Sleep(level int, key string) {
	level = q.clamp(level)
	q.levels[level].Sleep(key)
	q.changed(level)
}

// SetWeight changes the weight of key in every level that knows it, from the
// next pick on; see [fairshare.Picker.SetWeight].
func (q *Queue) SetWeight(key string, w Weight) {
	for i := range q.levels {
		q.levels[i].SetWeight(key, w)
	}
}

// Hold keeps key from being picked in level, without passing its turn to
// anybody else, lower levels included; see [fairshare.Picker.Hold].
func (q *Queue) Hold(level int, key string) { q.levels[q.clamp(level)].Hold(key) }

// Unhold ends a [Queue.Hold].
func (q *Queue) Unhold(level int, key string) { q.levels[q.clamp(level)].Unhold(key) }

// HasWork reports whether any key of any level is believed to have work.
func (q *Queue) HasWork() bool {
	_, ok := q.work.from(0)
	return ok
}

// Active is the number of keys of level that are believed to have work.
func (q *Queue) Active(level int) int { return q.levels[q.clamp(level)].Active() }

// Contains reports whether key is believed to have work in level.
func (q *Queue) Contains(level int, key string) bool {
	return q.levels[q.clamp(level)].Contains(key)
}

// Unsettled is the number of turns that were picked and neither settled nor
// refunded.
func (q *Queue) Unsettled() int { return q.open }

// Peek tells whose turn is next, without charging anybody.
func (q *Queue) Peek() (level int, key string, outcome Outcome) {
	level, ok := q.next()
	if !ok {
		return 0, "", Idle
	}
	key, outcome = q.levels[level].Peek()
	return level, key, outcome
}

// Pick gives the next turn and charges it, tentatively, to its key and in the
// counts of the guard, until [Queue.Settle] or [Queue.Refund] tells what it
// brought. The Turn is zero unless the outcome is Picked. [Blocked] means that
// the turn belongs to a key that is held: no other turn is given, of whatever
// level, because it would be out of order. No allocation once warm.
func (q *Queue) Pick() (Turn, Outcome) {
	level, ok := q.next()
	if !ok {
		return Turn{}, Idle
	}
	turn, outcome := q.levels[level].Pick()
	if outcome != Picked {
		return Turn{}, outcome
	}
	q.open++
	t := Turn{Turn: turn, Level: level}
	if q.guard != nil {
		t.number = q.guard.picked(level, q.work)
	}
	return t, Picked
}

// Settle says that the turn brought a message of this weight; see
// [fairshare.Picker.Settle]. It reports whether the turn was still open.
func (q *Queue) Settle(t Turn, actual Weight) bool {
	if !q.close(t, true) {
		return false
	}
	return q.levels[t.Level].Settle(t.Turn, actual)
}

// Refund says that the turn brought nothing; see [fairshare.Picker.Refund]. A
// turn that a level got because another yielded is due again at the next pick,
// to whichever lower level has work then. It reports whether the turn was still
// open.
func (q *Queue) Refund(t Turn) bool {
	if !q.close(t, false) {
		return false
	}
	return q.levels[t.Level].Refund(t.Turn)
}

func (q *Queue) close(t Turn, delivered bool) bool {
	if !t.Open() {
		return false
	}
	if q.guard != nil && !q.guard.close(t.number, delivered, q.work) {
		return false
	}
	q.open--
	return true
}

// changed follows whether level has work.
func (q *Queue) changed(level int) {
	has := q.levels[level].Active() > 0
	if q.work.has(level) == has {
		return
	}
	q.work.set(level, has)
	if q.guard != nil {
		q.guard.stale = true
	}
}

// next gives the level whose turn it is, and false when nobody has work.
func (q *Queue) next() (int, bool) {
	top, ok := q.work.from(0)
	if ok && q.guard != nil {
		top = q.guard.choose(top, q.work)
	}
	return top, ok
}

func (q *Queue) clamp(level int) int {
	if level < 0 || level >= len(q.levels) {
		return len(q.levels) - 1
	}
	return level
}
