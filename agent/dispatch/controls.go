package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/fairshare"
)

// controls is what operators have set for a queue. It outlives the queue's definitions, and comes before the first one.
type controls struct {
	paused  bool
	keys    map[string]bool             // that are paused
	weights map[string]fairshare.Weight // of keys; they win over the definition's
}

func (c *core) controlsOf(queue string) *controls {
	k := c.controls[queue]
	if k == nil {
		k = &controls{keys: map[string]bool{}, weights: map[string]fairshare.Weight{}}
		c.controls[queue] = k
	}
	return k
}

// pause stops taking from a queue, or takes from it again. While it is paused nothing is heard and nothing is looked for;
// so when it is resumed, it begins as a queue of which nothing is known, with a sweep.
func (c *core) pause(queue string, on bool, now time.Time) {
	k := c.controlsOf(queue)
	if k.paused == on {
		return
	}
	k.paused = on
	if q := c.queueNamed(queue); q != nil && !on {
		q.unseen, q.resumed, q.nextSweep = true, now, now
	}
	c.pump(now)
}

// pauseKey does so with one tenant of a queue that shares fairly. What its lanes are believed to have is kept up to date
// meanwhile, but it sleeps for the scheduler, which lets it earn nothing and forgets no debt.
func (c *core) pauseKey(queue, key string, on bool, now time.Time) {
	k := c.controlsOf(queue)
	if k.keys[key] == on {
		return
	}
	if on {
		k.keys[key] = true
	} else {
		delete(k.keys, key)
	}
	if q := c.queueNamed(queue); q != nil {
		for _, s := range q.slotsOf(key) {
			s.paused = q.pauses(key)
			c.refresh(s)
		}
	}
	c.pump(now)
}

// setWeight overrides a tenant's weight; 0 takes that back. It acts on what is waiting already.
func (c *core) setWeight(queue, key string, w fairshare.Weight, now time.Time) {
	k := c.controlsOf(queue)
	_, had := k.weights[key]
	if w > 0 {
		k.weights[key] = w
	} else {
		delete(k.weights, key)
	}
	if q := c.queueNamed(queue); q != nil {
		for _, s := range q.slotsOf(key) {
			c.weigh(s, had)
		}
	}
	c.pump(now)
}

// weigh tells the scheduler what the slot's next message weighs, after the weights that are given have changed. Where none
// is given any more, the messages' own count again: those have to be learned anew.
func (c *core) weigh(s *slot, wasGiven bool) {
	q := s.queue
	if w, ok := q.given(s.key); ok {
		s.weight, s.known = w, true
	} else if wasGiven {
		s.weight, s.known = fairshare.One, !q.layout.Keyed
	}
	if q.sched.Contains(s.level, s.key) {
		q.sched.Wake(s.level, s.key, q.expected(s))
	}
}

// given is the weight that is set for a key, by an operator or by the definition.
func (q *queue) given(key string) (fairshare.Weight, bool) {
	if w, ok := q.controls.weights[key]; ok {
		return w, true
	}
	w, ok := q.weights[key]
	return w, ok
}

// pauses tells whether a key is paused. Where one lane has the messages of all keys there is no telling them apart.
func (q *queue) pauses(key string) bool { return q.layout.Keyed && q.controls.keys[key] }

// slotsOf are the slots of a key, by level.
func (q *queue) slotsOf(key string) (slots []*slot) {
	for level := range q.layout.Levels {
		if s := q.slots[slotKey{level, key}]; s != nil {
			slots = append(slots, s)
		}
	}
	return slots
}

// stopped tells whether nothing may be taken from the slot.
func (s *slot) stopped() bool { return s.paused || s.queue.controls.paused }

// Pause stops taking from a queue, or takes from it again. It can be called before Define, and is remembered. Messages that
// are being taken at that moment are still handed over.
func (c *Capsule) Pause(queue string, on bool) {
	c.box.put(func(k *core, now time.Time) { k.pause(queue, on, now) })
}

// PauseKey does so with one tenant. It has no effect as long as the queue does not share fairly.
func (c *Capsule) PauseKey(queue, key string, on bool) {
	c.box.put(func(k *core, now time.Time) { k.pauseKey(queue, key, on, now) })
}

// SetWeight overrides the weight of one tenant, whatever the definition and messages say; 0 takes that back.
func (c *Capsule) SetWeight(queue, key string, w fairshare.Weight) {
	c.box.put(func(k *core, now time.Time) { k.setWeight(queue, key, w, now) })
}
