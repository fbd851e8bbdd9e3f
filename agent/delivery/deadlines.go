package delivery

// deadlines is a binary heap of entries, the earliest deadline first. Each entry knows its place, so that one that was
// settled is taken out without a search. Deadlines of one lease length come in ascending order, and adding such a one
// moves nothing.
type deadlines struct {
	heap []*entry
}

// absent is the place of an entry that is not in the heap.
const absent = -1

// first returns the entry with the earliest deadline, or nil.
func (d *deadlines) first() *entry {
	if len(d.heap) == 0 {
		return nil
	}
	return d.heap[0]
}

func (d *deadlines) add(e *entry) {
	e.place = len(d.heap)
	d.heap = append(d.heap, e)
	d.up(e.place)
}

// remove takes e out; nothing happens when it is not in.
func (d *deadlines) remove(e *entry) {
	i := e.place
	if i == absent {
		return
	}
	last := len(d.heap) - 1
	if i != last {
		d.swap(i, last)
	}
	d.heap[last] = nil
	d.heap = d.heap[:last]
	e.place = absent
	if i != last {
		d.moved(i)
	}
	if cap(d.heap) > 1024 && len(d.heap) < cap(d.heap)/8 { // a burst must not be paid for ever
		d.heap = append(make([]*entry, 0, cap(d.heap)/4), d.heap...)
	}
}

// changed restores the order after e's deadline was moved; nothing happens when it is not in.
func (d *deadlines) changed(e *entry) {
	if e.place != absent {
		d.moved(e.place)
	}
}

func (d *deadlines) moved(i int) {
	if !d.down(i) {
		d.up(i)
	}
}

func (d *deadlines) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if d.heap[parent].deadline <= d.heap[i].deadline {
			return
		}
		d.swap(i, parent)
		i = parent
	}
}

func (d *deadlines) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			break
		}
		if right := child + 1; right < len(d.heap) && d.heap[right].deadline < d.heap[child].deadline {
			child = right
		}
		if d.heap[i].deadline <= d.heap[child].deadline {
			break
		}
		d.swap(i, child)
		i = child
	}
	return i != start
}

func (d *deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].place = i
	d.heap[j].place = j
}
