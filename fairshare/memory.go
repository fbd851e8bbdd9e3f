package fairshare

const (
	// maxDebts bounds the resting keys whose debts are remembered. Where every
	// message has a key of its own and the backlog never ends, virtual time can
	// stand still for long, and debts would pile up without end. Beyond the
	// bound the smallest debt is forgiven: one turn, to a key that has to come
	// back before the sixty-five thousand that owe more.
	maxDebts = 1 << 16

	// maxFree bounds the entries kept for reuse: enough for keys that come and
	// go with every message.
	maxFree = 256

	// trimAbove is the number of entries up to which nothing is given back.
	trimAbove = 1024

	// rebaseAbove is the pass at which the origin is moved up, and lag is how
	// far behind virtual time passes stay exact when it is. Passes lie between
	// virtual-lag and virtual+2*maxUnsettled*scale, so neither end of a uint64
	// is ever reached.
	rebaseAbove = 1 << 62
	lag         = 1 << 60
)

// alloc makes an entry for a key that is not known, at virtual time.
func (p *Picker) alloc(key string) *entry {
	var e *entry
	if n := len(p.free); n > 0 {
		e = p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
	} else {
		e = &entry{}
	}
	e.key = key
	e.tie = tie(p.seed, key)
	e.settled = at(p.virtual)
	e.tentative = e.settled
	if p.keys == nil {
		p.keys = make(map[string]*entry)
	}
	p.keys[key] = e
	p.peak = max(p.peak, len(p.keys))
	return e
}

// forget drops what need not be remembered any more: debts that virtual time
// has passed, debts beyond the bound, and everything once the busy period is
// over.
//
// A busy period is over when no key has work and no turn is unsettled. Nobody
// waits then, so nobody can have been served ahead of another who waits: the
// debts are owed to nobody. Had a turn been unsettled, its key might still be
// charged, or might turn out to have work after all; so that is waited for.
//
// A resting key with unsettled turns may stand at the top and keep others from
// being dropped; that lasts until those turns are settled, which costs memory
// for a moment and changes no pick.
func (p *Picker) forget() {
	over := p.active.len() == 0 && p.unsettled == 0
	bound := maxDebts
	if p.maxDebts > 0 {
		bound = p.maxDebts
	}
	for p.resting.len() > 0 {
		e := p.resting.first()
		if e.unsettled > 0 || (!over && e.settled.units > p.virtual && p.resting.len() <= bound) {
			break
		}
		p.resting.remove(e)
		p.drop(e)
	}
	if over {
		p.virtual = 0
	}
}

// drop forgets an entry that is in no heap.
func (p *Picker) drop(e *entry) {
	delete(p.keys, e.key)
	if len(p.free) < maxFree {
		if p.free == nil {
			p.free = make([]*entry, 0, 8)
		}
		p.free = append(p.free, e)
		*e = entry{gen: e.gen + 1}
	} else {
		// Turns that were settled long ago may still point here.
		e.gen++
	}
	if p.peak > trimAbove && len(p.keys) <= p.peak/4 {
		p.trim()
	}
}

// trim gives memory back after many keys have gone: maps and slices do not
// shrink by themselves. Its cost is spread over the keys that went.
func (p *Picker) trim() {
	p.peak = len(p.keys)
	keys := make(map[string]*entry, len(p.keys))
	for _, h := range []*heap{&p.active, &p.resting} {
		h.items = append(make([]item, 0, h.len()), h.items...)
		for i := range h.items {
			keys[h.items[i].e.key] = h.items[i].e
		}
	}
	p.keys = keys
}

// rebase moves the origin up to a little before virtual time. All passes move
// by the same amount, so no order changes. Only a key that has been refunded
// over and over, without being put to sleep, while others had more than half a
// million turns of the smallest weight, can lie further back; it is moved up to
// the new origin, and is still first.
func (p *Picker) rebase() {
	if p.virtual <= lag {
		return
	}
	units := p.virtual - lag
	p.virtual = lag
	p.active.shift(units)
	p.resting.shift(units)
}
