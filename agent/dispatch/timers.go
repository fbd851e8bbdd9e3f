package dispatch

import (
	"container/heap"
	"time"
)

// timers are the lanes that will be believed to have work at a time to come.
type timers struct{ h timerHeap }

type timer struct {
	at   time.Time
	lane *lane
	why  reason
	n    uint64 // order of arrival, so that ties break the same way always
}

func (t *timers) add(at time.Time, l *lane, why reason) {
	t.h.n++
	heap.Push(&t.h, timer{at, l, why, t.h.n})
}

// next is when the first one is due; the zero time is never.
func (t *timers) next() time.Time {
	if len(t.h.items) == 0 {
		return time.Time{}
	}
	return t.h.items[0].at
}

// due takes out one that is due.
func (t *timers) due(now time.Time) (timer, bool) {
	if len(t.h.items) == 0 || t.h.items[0].at.After(now) {
		return timer{}, false
	}
	return heap.Pop(&t.h).(timer), true
}

type timerHeap struct {
	items []timer
	n     uint64
}

func (h *timerHeap) Len() int { return len(h.items) }
func (h *timerHeap) Less(i, j int) bool {
	if !h.items[i].at.Equal(h.items[j].at) {
		return h.items[i].at.Before(h.items[j].at)
	}
	return h.items[i].n < h.items[j].n
}
func (h *timerHeap) Swap(i, j int) { h.items[i], h.items[j] = h.items[j], h.items[i] }
func (h *timerHeap) Push(x any)    { h.items = append(h.items, x.(timer)) }
func (h *timerHeap) Pop() any {
	last := len(h.items) - 1
	t := h.items[last]
	h.items[last] = timer{}
	h.items = h.items[:last]
	return t
}
