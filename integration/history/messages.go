package history

import (
	"fmt"
	"slices"
	"time"
)

type lane struct{ queue, name string }

type message struct{ queue, id string }

// Order checks that, in each lane, messages come for the first time in the order in which they were stored.
func (h *History) Order() []string {
	var found []string
	came := map[message]bool{}
	last := map[lane]*Hand{}
	for i := range h.Hands {
		x := &h.Hands[i]
		if id := (message{x.Queue, x.ID}); came[id] {
			continue
		} else {
			came[id] = true
		}
		at := lane{x.Queue, x.Lane}
		if before := last[at]; before != nil && x.Seq < before.Seq {
			found = append(found, fmt.Sprintf("%s (%d) came for the first time after %s (%d)", x, x.Seq, before, before.Seq))
			continue
		}
		last[at] = x
	}
	return found
}

// Overtaking checks that, in each lane, nothing comes while an earlier message that has come is unfinished.
func (h *History) Overtaking(e Ending) []string {
	var found []string
	open := map[lane][]*Hand{} // the latest hand-over of each message that may be unfinished
	for i := range h.Hands {
		x := &h.Hands[i]
		at := lane{x.Queue, x.Lane}
		kept := open[at][:0]
		for _, y := range open[at] {
			switch {
			case y.ID == x.ID: // replaced below
			case y.finished() && y.Asked <= x.Got, slices.Contains(e.Dead, y.ID):
			default:
				kept = append(kept, y)
				if y.Seq < x.Seq {
					found = append(found, fmt.Sprintf("%s came although %s was unfinished", x, y))
				}
			}
		}
		open[at] = append(kept, x)
	}
	return found
}

// Loss checks that what was stored was finished, is left or is a dead letter, and nothing of it twice.
func (h *History) Loss(e Ending) []string {
	return h.loss(e, func(*Hand) bool { return false })
}

// SharedLoss is Loss for a queue that many share. An ack over which the connection broke is repeated, and answered with ok when the
// message is gone, although somebody else may have had it in between and finished it first: whose work it was is not known.
func (h *History) SharedLoss(e Ending) []string {
	return h.loss(e, func(x *Hand) bool {
		return slices.ContainsFunc(h.Rebuilds, func(r Rebuild) bool { return x.Asked <= r.To && x.Told >= r.From && x.Told-x.Asked > broken })
	})
}

// broken is how long the answer to an ack takes, at least, when the connection broke over it.
const broken = 50 * time.Millisecond

// loss is Loss, where an ack that was answered with ok may not have been the one that finished its message.
func (h *History) loss(e Ending, unsure func(*Hand) bool) []string {
	var found []string
	certain, maybe := map[string]int{}, map[string]int{}
	for i := range h.Hands {
		x := &h.Hands[i]
		may, sure := x.acked()
		if may {
			maybe[x.ID]++
		}
		if sure && !unsure(x) {
			certain[x.ID]++
		}
	}
	stored := map[string]bool{}
	for _, m := range h.Stored {
		stored[m.ID] = true
		ends := certain[m.ID]
		for _, list := range [][]string{e.Left, e.Dead} {
			for _, id := range list {
				if id == m.ID {
					ends++
				}
			}
		}
		switch {
		case ends == 0 && maybe[m.ID] == 0:
			found = append(found, fmt.Sprintf("%s is neither finished, nor left, nor a dead letter", m.ID))
		case ends > 1:
			found = append(found, fmt.Sprintf("%s has ended %d times: acked %d, left or dead %d", m.ID, ends, certain[m.ID], ends-certain[m.ID]))
		}
	}
	for i := range h.Hands {
		if x := &h.Hands[i]; !stored[x.ID] {
			found = append(found, fmt.Sprintf("%s was never stored", x))
		}
	}
	return found
}

// Duplicates checks that every hand-over of a message but its last one had a reason to be repeated.
func (h *History) Duplicates() []string {
	var found []string
	last := map[message]*Hand{}
	for i := range h.Hands {
		x := &h.Hands[i]
		id := message{x.Queue, x.ID}
		if before := last[id]; before != nil && !before.over() {
			found = append(found, fmt.Sprintf("%s came again after %s, which was %s", x, before, before.fate()))
		}
		last[id] = x
	}
	return found
}

// late is how long after its message was finished a copy that was on its way then may still reach an app.
const late = time.Second

// SharedDuplicates is Duplicates for a queue that many share: one rebuild of the lanes may bring a message that is in
// somebody's hands once more. What was finished does not come again.
func (h *History) SharedDuplicates() []string {
	var found []string
	hands := map[message][]*Hand{}
	for i := range h.Hands {
		x := &h.Hands[i]
		id := message{x.Queue, x.ID}
		free, allowed := 0, 0 // repetitions without a reason of their own, and how many of them rebuilds explain
		for _, r := range h.Rebuilds {
			if slices.ContainsFunc(hands[id], func(y *Hand) bool { return y.touchedBy(r) }) {
				allowed++
			}
		}
		for j, y := range hands[id] {
			if _, done := y.acked(); done && x.Got > y.Told+late {
				found = append(found, fmt.Sprintf("%s came %v after %s was finished", x, x.Got-y.Told, y))
			}
			next := x
			if j+1 < len(hands[id]) {
				next = hands[id][j+1]
			}
			if !y.overBefore(next.Got) {
				free++
			}
		}
		if free > allowed {
			y := hands[id][len(hands[id])-1]
			found = append(found, fmt.Sprintf("%s came again after %s, which was %s; %d rebuilds explain not all of %d repetitions", x, y, y.fate(), allowed, free))
		}
		hands[id] = append(hands[id], x)
	}
	return found
}

// Repeated counts hand-overs of messages that somebody else had in hand at that moment: what rebuilds of lanes have cost.
func (h *History) Repeated() (n int) {
	last := map[message]*Hand{}
	for i := range h.Hands {
		x := &h.Hands[i]
		id := message{x.Queue, x.ID}
		if y := last[id]; y != nil && !y.overBefore(x.Got) {
			n++
		}
		last[id] = x
	}
	return n
}

// Touched counts the hand-overs that were in flight, or waited for again, while lanes may have been made again: each of them
// may be repeated once.
func (h *History) Touched() (n int) {
	for i := range h.Hands {
		for _, r := range h.Rebuilds {
			if h.Hands[i].touchedBy(r) {
				n++
			}
		}
	}
	return n
}

// touchedBy tells whether the message was in the app's hands, unfinished, at some time of a rebuild.
func (h *Hand) touchedBy(r Rebuild) bool {
	_, done := h.acked()
	return h.Got <= r.To && !(done && h.Told < r.From)
}

// overBefore tells whether there was a reason for the message to come again at a time: it was given back, or lost.
func (h *Hand) overBefore(at time.Duration) bool {
	_, done := h.acked()
	switch {
	case done || h.Result == "ack" && h.Status == "already_settled":
		return false
	case h.Result != "" && h.Asked > 0 && h.Asked <= at:
		return true
	}
	return h.Lost != "" && h.LostAt <= at
}

func (h *Hand) fate() string {
	switch {
	case h.Status != "":
		return h.Result + "ed: " + h.Status
	case h.Result != "":
		return h.Result + "ed without an answer"
	}
	return "still being handled"
}
