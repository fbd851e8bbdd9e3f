package group

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/config"
)

// reload takes over definitions and capsules. The heartbeats that say so come first; what is in force is decided after
// one of them was stored.
func (o *owner) reload(defs []config.Queue, capsules []Capsule) {
	o.own = append([]config.Queue(nil), defs...)
	o.stamps = make([]stamp, len(defs))
	for i, q := range defs {
		o.stamps[i] = stampOf(q)
	}
	o.edition++
	o.dirty = true
	if len(capsules) == 0 {
		capsules = []Capsule{{}} // the definitions are carried all the same
	}
	old := map[string]*beat{}
	for _, b := range o.beats {
		old[b.key] = b
	}
	beats := make([]*beat, 0, len(capsules))
	for _, c := range capsules {
		key := heartbeatKey(o.g.cfg.Agent, c.Name)
		b := old[key]
		if b == nil {
			b = &beat{key: key}
		}
		delete(old, key)
		b.capsule, b.due = c, time.Time{}
		beats = append(beats, b)
	}
	for _, b := range o.beats {
		if old[b.key] != nil && !b.foreign && !b.sent.IsZero() {
			o.g.bucket.Delete(b.key, func(uint64, error) {}) // if that fails, the record goes stale
		}
	}
	o.beats = beats
}

// demandChanged brings heartbeats forward that say something else than what holds now.
func (o *owner) demandChanged(now time.Time) {
	o.dirty = true
	for _, b := range o.beats {
		if demand, failing := o.g.demandOf(b.capsule.Name); demand != b.demand || failing != b.failing {
			b.due = now
		}
	}
}

// write writes the heartbeats that are due, and returns when the next one is, or next if that is earlier.
func (o *owner) write(now, next time.Time) time.Time {
	for _, b := range o.beats {
		at := b.due
		if gap := b.sent.Add(demandGap); !b.sent.IsZero() && at.Before(gap) {
			at = gap
		}
		if !at.After(now) {
			o.send(b, now)
			at = b.due
		}
		next = earlier(next, at)
	}
	return next
}

func (o *owner) send(b *beat, now time.Time) {
	b.seq++
	b.sent = now
	b.demand, b.failing = o.g.demandOf(b.capsule.Name)
	interval := o.g.cfg.Interval
	b.due = now.Add(interval - time.Duration(o.rnd.Int64N(int64(interval/10)+1)))
	o.dirty = true // a heartbeat is also the tick on which everything is looked at again
	h := heartbeat{
		Agent: o.g.cfg.Agent, Boot: o.g.cfg.Boot, Born: o.born,
		Capsule: b.capsule.Name, Queues: b.capsule.Queues, ConsumerPriority: b.capsule.ConsumerPriority, Demand: b.demand, Failing: b.failing,
		Definitions: make(map[string]stamp, len(o.own)), IntervalMS: interval.Milliseconds(), Seq: b.seq,
	}
	for i, q := range o.own {
		h.Definitions[q.Name] = o.stamps[i]
	}
	value, err := json.Marshal(h)
	if err != nil {
		o.g.log.Error("a heartbeat cannot be written", "capsule", b.capsule.Name, "error", err) // its types have a JSON form
		return
	}
	edition := o.edition
	o.g.bucket.Put(b.key, value, func(revision uint64, err error) {
		o.g.post(func(o *owner) { o.sent(b, edition, revision, err) })
	})
}

// sent takes the outcome of a heartbeat. If it is unknown, the next one settles it.
func (o *owner) sent(b *beat, edition int, revision uint64, err error) {
	now := time.Now()
	if err != nil {
		o.failed(now, err)
		b.due = earlier(b.due, o.retry)
		return
	}
	o.worked(now)
	if o.born == 0 {
		o.born = revision
	}
	if edition > o.stored {
		o.stored = edition
		o.dirty = true
	}
}

// twin takes a record under this agent's own id: its own, one that a crashed predecessor left, or one of another agent
// that wrongly has the same id.
func (o *owner) twin(e bucket.Entry, now time.Time) {
	if o.yielded {
		return
	}
	var mine *beat
	for _, b := range o.beats {
		if b.key == e.Key {
			mine = b
		}
	}
	if e.Deleted {
		if mine != nil {
			mine.foreign, mine.due = false, now // nobody else may delete it: write it again
		}
		return
	}
	h, ok := readHeartbeat(e.Value)
	foreign := !ok || h.Boot != o.g.cfg.Boot
	if mine != nil {
		mine.foreign = foreign
	}
	if !foreign {
		return
	}
	// A record that was there before this agent's first one proves nothing: its author may have crashed. One that came
	// later does, and the later born of the two gives way, so that not both do.
	if ok && h.Born > 0 && o.born > h.Born && e.Revision > o.born {
		o.yield()
		return
	}
	if mine != nil {
		mine.due = now
		return
	}
	o.g.bucket.Delete(e.Key, func(uint64, error) {}) // of a capsule that the predecessor had
}

func (o *owner) yield() {
	o.yielded = true
	o.g.giveUp(fmt.Errorf("%w: an agent with the id %q was there before this one and is alive; "+
		"give this one an id of its own (agent.id), or stop the other one", ErrDuplicateAgent, o.g.cfg.Agent))
}

// leave deletes this agent's heartbeats.
func (o *owner) leave() {
	ctx := o.g.stopCtx
	for _, event := range o.g.end() {
		event(o)
	}
	var keys []string
	for _, b := range o.beats {
		if !b.foreign && !b.sent.IsZero() {
			keys = append(keys, b.key)
		}
	}
	var err error
	for try := 0; len(keys) > 0 && try < farewellTries; try++ {
		if try > 0 {
			select {
			case <-time.After(o.backoff()):
			case <-ctx.Done():
			}
		}
		if keys, err = o.remove(keys); ctx.Err() != nil {
			break
		}
	}
	if len(keys) > 0 {
		o.g.stopErr = fmt.Errorf("%w: %w", ErrHeartbeatsLeft, err)
	}
}

// remove deletes records, and returns those that may still be there and why.
func (o *owner) remove(keys []string) (left []string, err error) {
	type outcome struct {
		key string
		err error
	}
	outcomes := make(chan outcome, len(keys))
	open := map[string]bool{}
	for _, key := range keys {
		open[key] = true
		o.g.bucket.Delete(key, func(_ uint64, err error) { outcomes <- outcome{key, err} })
	}
	for range keys {
		select {
		case r := <-outcomes:
			if r.err == nil {
				delete(open, r.key)
			} else {
				err = r.err
			}
		case <-o.g.stopCtx.Done():
			err = o.g.stopCtx.Err()
		}
	}
	for _, key := range keys {
		if open[key] {
			left = append(left, key)
		}
	}
	return left, err
}
