package fairshare

// Picker decides whose turn it is among the keys of one class: one priority
// level of one queue, as one agent sees it. See the package comment for the
// rules.
//
// A Picker is a value without a clock, a lock or a goroutine: the same calls
// give the same picks. It is not safe for concurrent use; one goroutine owns it.
// It must not be copied once it is in use. The zero value is ready, with seed 0.
type Picker struct {
	seed uint64

	keys    map[string]*entry
	active  heap // believed to have work, by tentative pass
	resting heap // not active, but in debt or with unsettled turns, by settled pass

	// virtual is virtual time: where the latest settled turn began. It never
	// falls within a busy period.
	virtual   uint64
	unsettled int // turns, over all keys

	free     []*entry // for reuse, at most maxFree
	peak     int      // most entries since the memory was last trimmed
	maxDebts int      // 0, or in tests a smaller bound than the constant
}

// New makes a Picker that breaks ties in an order of its own: agents that share
// a queue use different seeds. It costs a few words until a key wakes.
func New(seed uint64) *Picker { return &Picker{seed: seed} }

// Wake says that key is believed to have work, and which weight to expect of
// it. It starts at its own pass or at virtual time, whichever is later: time
// asleep earns nothing, and a debt is not forgotten. A key that is awake only
// gets the weight. O(log keys).
func (p *Picker) Wake(key string, w Weight) {
	w = w.orOne()
	e := p.keys[key]
	switch {
	case e == nil:
		e = p.alloc(key)
	case e.active:
		e.weight = w
		return
	default:
		p.resting.remove(e)
		if e.settled.units < p.virtual {
			// Unsettled turns stay charged, from the new start on.
			e.tentative.units += p.virtual - e.settled.units
			e.settled = at(p.virtual)
			if e.unsettled == 0 {
				e.tentative = e.settled
			}
		}
	}
	e.weight = w
	e.active = true
	p.active.push(e)
}

// SetWeight changes the weight of a key that this Picker knows, from its next
// turn on. Turns that were picked before keep their price: what a key has been
// given is paid for at the weight it was given at. So after a rise the first
// turn at the new price comes at most one turn of the old price later. Unknown
// keys are ignored: their weight comes with [Picker.Wake].
func (p *Picker) SetWeight(key string, w Weight) {
	if e := p.keys[key]; e != nil {
		e.weight = w.orOne()
	}
}

// Sleep says that key is believed to have no work. It is not picked until it
// wakes. Its turns that are not settled yet can still be settled and refunded;
// its debt is remembered until virtual time has passed it. A hold ends. A key
// that is not awake is left alone. O(log keys).
func (p *Picker) Sleep(key string) {
	e := p.keys[key]
	if e == nil || !e.active {
		return
	}
	p.active.remove(e)
	e.active, e.held = false, false
	p.resting.push(e)
	p.forget()
}

// Hold says that key, although it has work, must not be picked now, for
// instance because the weight of its next message is being looked up. Its turn
// does not pass to others: a pick that comes to it is [Blocked]. Keys that are
// not awake are ignored; [Picker.Sleep] and [Picker.Unhold] end it.
func (p *Picker) Hold(key string) { p.hold(key, true) }

// Unhold ends a [Picker.Hold]. It does nothing when there is none.
func (p *Picker) Unhold(key string) { p.hold(key, false) }

func (p *Picker) hold(key string, held bool) {
	if e := p.keys[key]; e != nil && e.active {
		e.held = held
	}
}

// Active is the number of keys that are believed to have work, held ones
// included.
func (p *Picker) Active() int { return p.active.len() }

// Contains reports whether key is believed to have work.
func (p *Picker) Contains(key string) bool {
	e := p.keys[key]
	return e != nil && e.active
}

// Unsettled is the number of turns that were picked and neither settled nor
// refunded.
func (p *Picker) Unsettled() int { return p.unsettled }
