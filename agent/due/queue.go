package due

import "time"

// Queue is a binary heap (Williams 1964) of values with times. The zero value is an empty queue. Adding and taking cost
// O(log n) comparisons, and no allocation but for growth.
type Queue[T any] struct {
	items []item[T]
	added uint64
}

type item[T any] struct {
	at    time.Time
	n     uint64 // in the order of arrival
	value T
}

func (i *item[T]) before(j *item[T]) bool {
	if !i.at.Equal(j.at) {
		return i.at.Before(j.at)
	}
	return i.n < j.n
}

// Len is how many values are in the queue.
func (q *Queue[T]) Len() int { return len(q.items) }

// Add puts value in, for a time that may be past.
func (q *Queue[T]) Add(at time.Time, value T) {
	q.added++
	q.items = append(q.items, item[T]{at, q.added, value})
	for child := len(q.items) - 1; child > 0; {
		parent := (child - 1) / 2
		if !q.items[child].before(&q.items[parent]) {
			return
		}
		q.items[child], q.items[parent] = q.items[parent], q.items[child]
		child = parent
	}
}

// Next is when the first one is due; the zero time is never.
func (q *Queue[T]) Next() time.Time {
	if len(q.items) == 0 {
		return time.Time{}
	}
	return q.items[0].at
}

// Take takes out the first one, if it is due at now.
func (q *Queue[T]) Take(now time.Time) (value T, ok bool) {
	if len(q.items) == 0 || q.items[0].at.After(now) {
		return value, false
	}
	value = q.items[0].value
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items[last] = item[T]{}
	q.items = q.items[:last]
	q.sink()
	return value, true
}

// sink moves the root down to where it belongs.
func (q *Queue[T]) sink() {
	for parent := 0; ; {
		first := 2*parent + 1
		if first >= len(q.items) {
			return
		}
		if right := first + 1; right < len(q.items) && q.items[right].before(&q.items[first]) {
			first = right
		}
		if !q.items[first].before(&q.items[parent]) {
			return
		}
		q.items[parent], q.items[first] = q.items[first], q.items[parent]
		parent = first
	}
}
