package history

import (
	"fmt"
	"slices"
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
	var found []string
	certain, maybe := map[string]int{}, map[string]int{}
	for i := range h.Hands {
		x := &h.Hands[i]
		may, sure := x.acked()
		if may {
			maybe[x.ID]++
		}
		if sure {
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

func (h *Hand) fate() string {
	switch {
	case h.Status != "":
		return h.Result + "ed: " + h.Status
	case h.Result != "":
		return h.Result + "ed without an answer"
	}
	return "still being handled"
}
