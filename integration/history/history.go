package history

import "time"

// A Message is something that was stored, and confirmed to its publisher.
type Message struct {
	Queue string
	ID    string // unique in the record; the payload
}

// A Hand is one hand-over of one message to one app. Times are since the beginning of the record; 0 is never.
type Hand struct {
	Queue   string
	Lane    string // what is ordered: the level, and with fair share the key
	Agent   string
	App     string
	ID      string
	Seq     uint64
	Fence   uint64
	Attempt int

	Got   time.Duration // received by the app
	Began time.Duration // the handler
	Ended time.Duration // the handler
	Asked time.Duration // the settlement was sent

	Result string        // what was asked for: ack, nack, reject; "" is nothing
	Status string        // what was answered; "" is nothing
	Told   time.Duration // the settlement was answered
	Lost   string        // why the app has it no more without having settled it: its connection broke, it was revoked
	LostAt time.Duration // when the app knew
}

// acked tells whether the message may be finished by this hand-over, and whether that is certain.
func (h *Hand) acked() (maybe, certain bool) {
	if h.Result != "ack" {
		return false, false
	}
	switch h.Status {
	case "ok":
		return true, true
	case "", "unavailable", "unknown", "already_settled":
		return true, false
	case "lease_lost": // refused; but one that was under way when the lease ended may have been carried out
		return true, false
	}
	return false, false
}

// finished tells whether the message may be finished by this hand-over, whatever the way.
func (h *Hand) finished() bool {
	acked, _ := h.acked()
	return acked || h.Result == "reject"
}

// over tells whether there is a reason for the message to come again.
func (h *Hand) over() bool {
	_, certain := h.acked()
	return !certain && (h.Result != "" && h.Asked > 0 || h.Lost != "")
}

// end is when nothing of the handler runs any more; false: never.
func (h *Hand) end() (time.Duration, bool) {
	switch {
	case h.Ended > 0:
		return h.Ended, true
	case h.LostAt > 0:
		return h.LostAt, true
	}
	return 0, false
}

// A Write is what an app wanted to do under a fence, and whether the sink let it.
type Write struct {
	Queue    string
	ID       string
	Fence    uint64
	Accepted bool
}

// A Cut is a moment from which an agent is known to have no tenure although its apps may not know: its handlers count as
// ended then.
type Cut struct {
	Agent string
	At    time.Duration
}

// A Rebuild is a time in which the lanes of a queue that many share may have been made again: what is unfinished then can
// come once more, to somebody else.
type Rebuild struct {
	From, To time.Duration
}

// History is a whole record. Hands and Writes are in the order in which they were noted.
type History struct {
	Stored   []Message
	Hands    []Hand
	Writes   []Write
	Cuts     []Cut
	Rebuilds []Rebuild
}

// Of is the part of the record that is about one queue.
func (h *History) Of(queue string) *History {
	part := &History{Cuts: h.Cuts, Rebuilds: h.Rebuilds}
	for _, m := range h.Stored {
		if m.Queue == queue {
			part.Stored = append(part.Stored, m)
		}
	}
	for _, x := range h.Hands {
		if x.Queue == queue {
			part.Hands = append(part.Hands, x)
		}
	}
	for _, w := range h.Writes {
		if w.Queue == queue {
			part.Writes = append(part.Writes, w)
		}
	}
	return part
}

// Ending is what is there when everything is over, by message.
type Ending struct {
	Left []string // waiting in its queue
	Dead []string // a dead letter
}

// check is one of the checks: what it found.
type check struct {
	name  string
	found []string
}

// Judge runs all checks of queues with a single active consumer and returns what they found: nothing if all is well.
func (h *History) Judge(e Ending) []string {
	return join(
		check{"fences", h.Fences()},
		check{"overlaps", h.Overlaps()},
		check{"order", h.Order()},
		check{"overtaking", h.Overtaking(e)},
		check{"loss", h.Loss(e)},
		check{"duplicates", h.Duplicates()},
		check{"sink", h.Sink()},
	)
}

// JudgeShared runs the checks of queues that many consumers work on at once.
func (h *History) JudgeShared(e Ending) []string {
	return join(check{"loss", h.SharedLoss(e)}, check{"duplicates", h.SharedDuplicates()})
}

func join(checks ...check) []string {
	var all []string
	for _, c := range checks {
		for _, f := range c.found {
			all = append(all, c.name+": "+f)
		}
	}
	return all
}
