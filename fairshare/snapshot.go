package fairshare

import "slices"

// KeyState is what is remembered of one key, for status pages and tests.
type KeyState struct {
	Key    string
	Weight Weight // expected of its next turn
	// Ahead is how far the key's pass lies ahead of virtual time, with its
	// unsettled turns charged; [TurnCost] is one turn of weight [One]. The
	// lowest is next. For a key that is not active it is the debt that it
	// would come back with. It can be negative for a key that was refunded.
	Ahead     int64
	Unsettled int // turns picked, and neither settled nor refunded
	Active    bool
	Held      bool
}

// Snapshot lists all keys that cost memory, in the total order in which they
// are due: by pass, then in this Picker's order of ties. It allocates, and takes
// O(keys log keys).
func (p *Picker) Snapshot() []KeyState {
	items := make([]item, 0, len(p.keys))
	for _, h := range []*heap{&p.active, &p.resting} {
		for _, it := range h.items {
			items = append(items, item{rank: it.e.tentative.units, tie: it.tie, e: it.e})
		}
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	states := make([]KeyState, len(items))
	for i, it := range items {
		states[i] = KeyState{
			Key:       it.e.key,
			Weight:    it.e.weight,
			Ahead:     int64(it.rank - p.virtual),
			Unsettled: int(it.e.unsettled),
			Active:    it.e.active,
			Held:      it.e.held,
		}
	}
	return states
}
