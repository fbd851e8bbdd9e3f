package fairshare

import "maps"

// The controls are schedulers with one mistake each. They exist to show that the
// checks of fairness can fail.

// arrivalOrder is no fair share at all.
type arrivalOrder struct{ queue []string }

func (a *arrivalOrder) arrive(key string, _ Weight) { a.queue = append(a.queue, key) }

func (a *arrivalOrder) next() (string, bool) {
	if len(a.queue) == 0 {
		return "", false
	}
	key := a.queue[0]
	a.queue = a.queue[1:]
	return key, true
}

// naiveStride is stride scheduling in floating point, with switches for the
// mistakes that are easy to make.
type naiveStride struct {
	forgetsDebt   bool // a key that runs dry is forgotten
	noVirtualTime bool // a key that comes back continues where it was
	tiesByArrival bool // equal passes: whoever came first, as a map or list has it

	pass    map[string]float64
	weight  map[string]Weight
	waiting map[string]int
	order   []string
	virtual float64
}

func newNaive(n naiveStride) *naiveStride {
	n.pass, n.weight, n.waiting = map[string]float64{}, map[string]Weight{}, map[string]int{}
	return &n
}

func (n *naiveStride) arrive(key string, w Weight) {
	if n.waiting[key] == 0 {
		if _, known := n.pass[key]; !known {
			n.order = append(n.order, key)
			n.pass[key] = 0
		}
		if !n.noVirtualTime {
			n.pass[key] = max(n.pass[key], n.virtual)
		}
	}
	n.weight[key] = w
	n.waiting[key]++
}

func (n *naiveStride) next() (string, bool) {
	best, found := "", false
	for _, key := range n.order {
		if n.waiting[key] == 0 {
			continue
		}
		if !found || n.pass[key] < n.pass[best] || (n.pass[key] == n.pass[best] && !n.tiesByArrival && key < best) {
			best, found = key, true
		}
	}
	if !found {
		return "", false
	}
	n.virtual = max(n.virtual, n.pass[best])
	n.pass[best] += float64(One) / float64(n.weight[best])
	n.waiting[best]--
	if n.waiting[best] == 0 && n.forgetsDebt {
		n.forget(best)
	}
	return best, true
}

func (n *naiveStride) forget(key string) {
	delete(n.pass, key)
	maps.DeleteFunc(n.waiting, func(k string, _ int) bool { return k == key })
	for i, k := range n.order {
		if k == key {
			n.order = append(n.order[:i:i], n.order[i+1:]...)
			return
		}
	}
}
