package fairshare

import "math/bits"

// arity of the heap. Four children are one and a half cache lines of ranks, and
// halve the depth: a thousand keys are five steps deep.
const arity = 4

// item carries the rank inside the heap, so that the comparisons of a sift do
// not touch the entries; only a tie between equal hashes reads the keys.
type item struct {
	rank uint64
	tie  uint64
	e    *entry
}

// before is a total order: no two keys are equal in it, so the heap's shape,
// and with it the history of insertions, never decides who is next.
//
// Which of two keys is first is as good as random to a processor, so rank and
// tie are compared as one number of 128 bits, without a branch to guess wrong.
func (a *item) before(b *item) bool { return a.precedes(b) != 0 }

// precedes is before as a number, 1 or 0, to count with.
func (a *item) precedes(b *item) int {
	if a.tie == b.tie {
		return a.collides(b)
	}
	_, less := bits.Sub64(a.tie, b.tie, 0)
	_, less = bits.Sub64(a.rank, b.rank, less)
	return int(less)
}

// collides is precedes for two keys with the same hash.
func (a *item) collides(b *item) int {
	if a.rank < b.rank || (a.rank == b.rank && a.e.key < b.e.key) {
		return 1
	}
	return 0
}

// heap is an indexed heap: entries know their place, so that any of them can be
// moved or taken out in logarithmic time.
type heap struct {
	items []item
}

func (h *heap) len() int { return len(h.items) }

// first is the entry that comes before all others; the heap must not be empty.
func (h *heap) first() *entry { return h.items[0].e }

func (h *heap) push(e *entry) {
	h.items = append(h.items, item{rank: e.rank(), tie: e.tie, e: e})
	h.up(len(h.items) - 1)
}

// fix restores the order after e's rank may have changed.
func (h *heap) fix(e *entry) {
	i := int(e.index)
	rank := e.rank()
	old := h.items[i].rank
	switch {
	case rank == old:
	case rank > old:
		h.items[i].rank = rank
		h.down(i)
	default:
		h.items[i].rank = rank
		h.up(i)
	}
}

func (h *heap) remove(e *entry) {
	i := int(e.index)
	last := len(h.items) - 1
	moved := h.items[last]
	h.items[last] = item{}
	h.items = h.items[:last]
	if i == last {
		return
	}
	h.items[i] = moved
	if !h.up(i) {
		h.down(i)
	}
}

// up moves the item at i towards the root and reports whether it moved.
func (h *heap) up(i int) bool {
	it := h.items[i]
	start := i
	for i > 0 {
		parent := (i - 1) / arity
		if !it.before(&h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, it)
	return i != start
}

func (h *heap) down(i int) {
	items := h.items
	it := items[i]
	for {
		child := i*arity + 1
		if child >= len(items) {
			break
		}
		child += least(items[child:min(child+arity, len(items))])
		if !items[child].before(&it) {
			break
		}
		h.set(i, items[child])
		i = child
	}
	h.set(i, it)
}

// least gives the index of the first of the siblings, of which there is at least
// one. Nearly always there are four; comparing them in pairs shortens the chain
// of comparisons that wait for each other.
func least(siblings []item) int {
	if len(siblings) == arity {
		a := siblings[1].precedes(&siblings[0])
		b := 2 + siblings[3].precedes(&siblings[2])
		if siblings[b].before(&siblings[a]) {
			return b
		}
		return a
	}
	first := 0
	for i := 1; i < len(siblings); i++ {
		if siblings[i].before(&siblings[first]) {
			first = i
		}
	}
	return first
}

func (h *heap) set(i int, it item) {
	h.items[i] = it
	it.e.index = int32(i)
}

// shift moves every rank towards zero by the same amount, entries included.
// What would fall below zero stops there, which keeps the order as it is but
// for ties among those that stop.
func (h *heap) shift(units uint64) {
	for i := range h.items {
		e := h.items[i].e
		e.settled.back(units)
		e.tentative.back(units)
		h.items[i].rank = e.rank()
	}
	for i := (len(h.items) - 2) / arity; i >= 0 && len(h.items) > 1; i-- {
		h.down(i)
	}
}
