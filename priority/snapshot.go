package priority

// LevelState is what is remembered of one level, for status pages and tests.
type LevelState struct {
	Level int
	// Yields counts towards the starvation guard: deliveries since a lower
	// level ran, while one had work. At the guard's limit the level yields a
	// turn. Always 0 when the queue is strict.
	Yields int
	Active int        // keys believed to have work
	Keys   []KeyState // in the order in which they are due
}

// Snapshot lists all levels, the highest first, each with its keys in total
// order. The counts are those of settled deliveries. It allocates.
func (q *Queue) Snapshot() []LevelState {
	states := make([]LevelState, len(q.levels))
	for i := range q.levels {
		states[i] = LevelState{
			Level:  i,
			Active: q.levels[i].Active(),
			Keys:   q.levels[i].Snapshot(),
		}
		if q.guard != nil {
			states[i].Yields = int(q.guard.settled[i])
		}
	}
	return states
}
