package priority

// oracle is the rule of levels and guard, written down as directly as possible,
// for single takes from levels of one key each: who is next is found by reading
// the rule from the top each time. Like the Queue it learns that a level is empty
// by asking it.
type oracle struct {
	guard    int
	waiting  []int
	believed []bool
	count    []int
}

func newOracle(levels, guard int) *oracle {
	return &oracle{guard: guard, waiting: make([]int, levels), believed: make([]bool, levels), count: make([]int, levels)}
}

func (o *oracle) publish(level, n int) {
	o.waiting[level] += n
	o.believed[level] = true
}

// lower is the next level below that is believed to have work, or -1.
func (o *oracle) lower(level int) int {
	for l := level + 1; l < len(o.believed); l++ {
		if o.believed[l] {
			return l
		}
	}
	return -1
}

// take delivers one message and gives its level, or -1.
func (o *oracle) take() int {
	for {
		level := o.lower(-1)
		if level < 0 {
			return -1
		}
		for o.guard > 0 && o.count[level] >= o.guard && o.lower(level) >= 0 {
			level = o.lower(level)
		}
		if o.waiting[level] == 0 {
			o.believed[level] = false
			continue
		}
		if o.lower(level) >= 0 && o.count[level] < o.guard {
			o.count[level]++
		}
		for higher := range level {
			o.count[higher] = 0
		}
		o.waiting[level]--
		return level
	}
}
