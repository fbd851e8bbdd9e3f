package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Fences checks that fences are there, never fall, and belong to one agent each.
func (h *History) Fences() []string {
	var found []string
	highest := map[string]*Hand{}
	owners := map[string]map[uint64]string{}
	for i := range h.Hands {
		x := &h.Hands[i]
		if x.Fence == 0 {
			found = append(found, fmt.Sprintf("%s came without a fence", x))
			continue
		}
		if before := highest[x.Queue]; before != nil && x.Fence < before.Fence {
			found = append(found, fmt.Sprintf("%s came after %s", x, before))
		} else {
			highest[x.Queue] = x
		}
		if owners[x.Queue] == nil {
			owners[x.Queue] = map[uint64]string{}
		}
		if owner, ok := owners[x.Queue][x.Fence]; ok && owner != x.Agent {
			found = append(found, fmt.Sprintf("%s has a fence that is %s's", x, owner))
		} else {
			owners[x.Queue][x.Fence] = x.Agent
		}
	}
	return found
}

// Overlaps checks that never two handlers of one queue run at the same time.
func (h *History) Overlaps() []string {
	var found []string
	byBegin := make([]*Hand, 0, len(h.Hands))
	for i := range h.Hands {
		if h.Hands[i].Began > 0 {
			byBegin = append(byBegin, &h.Hands[i])
		}
	}
	slices.SortStableFunc(byBegin, func(a, b *Hand) int { return cmp.Compare(a.Began, b.Began) })
	last := map[string]*Hand{} // of each queue, the one that runs longest
	for _, x := range byBegin {
		before := last[x.Queue]
		if before != nil && x.Began < h.until(before) {
			found = append(found, fmt.Sprintf("%s began while %s was still being handled", x, before))
		}
		if before == nil || h.until(x) > h.until(before) {
			last[x.Queue] = x
		}
	}
	return found
}

// until is when a handler counts as ended.
func (h *History) until(x *Hand) time.Duration {
	const forever = time.Duration(1<<63 - 1)
	end, ok := x.end()
	if !ok {
		end = forever
	}
	for _, c := range h.Cuts {
		if c.Agent == x.Agent && c.At >= x.Began {
			end = min(end, c.At)
		}
	}
	return end
}

// Sink checks what the sink accepted, in order.
func (h *History) Sink() []string {
	var found []string
	highest := map[string]uint64{}
	for _, w := range h.Writes {
		switch {
		case !w.Accepted:
		case w.Fence < highest[w.Queue]:
			found = append(found, fmt.Sprintf("%s of %s was accepted with fence %d after %d", w.ID, w.Queue, w.Fence, highest[w.Queue]))
		default:
			highest[w.Queue] = w.Fence
		}
	}
	return found
}

// Silence returns the longest time between from and to in which no app had a message of the queue, and when it began.
func (h *History) Silence(queue string, from, to time.Duration) (longest, since time.Duration) {
	type span struct{ begin, end time.Duration }
	var spans []span
	for i := range h.Hands {
		x := &h.Hands[i]
		if x.Queue != queue {
			continue
		}
		end, ok := x.end()
		if !ok {
			end = x.Got
		}
		spans = append(spans, span{x.Got, max(x.Got, end)})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	spans = append(spans, span{to, to})
	at := from
	for _, s := range spans {
		if s.begin > to {
			s.begin = to
		}
		if gap := s.begin - at; gap > longest {
			longest, since = gap, at
		}
		at = max(at, s.end)
	}
	return longest, since
}

// String names a hand-over in what checks found.
func (h *Hand) String() string {
	return fmt.Sprintf("%s (%s, attempt %d, fence %d, at %s/%s, %v)", h.ID, h.Queue, h.Attempt, h.Fence, h.Agent, h.App,
		h.Got.Round(time.Millisecond))
}
