package fairshare

// entry is what a Picker remembers of one key. It is in exactly one of the two
// heaps: among the active while the key is believed to have work, else among
// the resting for as long as it has a debt or a turn that is not settled.
//
// Invariant: tentative = settled + the charges of the unsettled turns, so the
// two are equal when there are none.
type entry struct {
	key string
	tie uint64

	// settled is the key's pass as far as the results are known: the start of
	// its next turn, if nothing more were to come of the unsettled ones.
	settled pass
	// tentative is what picks go by: as if every unsettled turn had brought a
	// message of the weight that was expected.
	tentative pass

	weight    Weight // to expect of the next turn
	unsettled int32  // turns picked, and neither settled nor refunded
	index     int32  // position in its heap
	gen       uint32 // grows when the entry is freed: tells old turns from new
	active    bool
	held      bool // active, but not to be picked now
}

// rank is the pass by which the entry's heap orders it: what it would be picked
// at, or, at rest, the debt that is left.
func (e *entry) rank() uint64 {
	if e.active {
		return e.tentative.units
	}
	return e.settled.units
}
