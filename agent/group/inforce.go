package group

import (
	"errors"
	"maps"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/config"
)

// defined takes the record of a definition in force.
func (o *owner) defined(e bucket.Entry) {
	queue, ok := queueOf(e.Key)
	if !ok {
		return
	}
	o.dirty = true
	if e.Deleted {
		delete(o.force, queue)
		return
	}
	delete(o.stuck, queue)
	o.force[queue] = readDefinition(queue, e.Value, e.Revision)
}

// evaluate decides about every queue and makes a new picture. seen: see [situation].
func (o *owner) evaluate(seen bool) {
	o.dirty = false
	settled := o.known
	clear(o.undecided)
	for i, q := range o.own {
		if o.swaps[q.Name] {
			settled = false
			o.undecided[q.Name] = true
			continue
		}
		f := o.force[q.Name]
		switch o.g.decide(situation{
			own: o.stamps[i], force: f, seen: seen,
			carried:   f != nil && o.peers.carried(q.Name, f),
			outranked: o.peers.outranked(q.Name, q.Revision),
			announced: o.stored == o.edition && !o.yielded,
		}) {
		case announce:
			settled = false
			o.undecided[q.Name] = true
		case look:
			settled = false
			o.unsure = true
			o.undecided[q.Name] = true
		case replace:
			settled = false
			o.undecided[q.Name] = true
			o.replace(q, f)
		}
	}
	o.publish()
	if settled && !o.settled {
		o.settled = true
		close(o.g.decided)
	}
}

// replace puts this agent's definition in force, if the record is still the one that was decided on.
func (o *owner) replace(q config.Queue, f *force) {
	value, err := writeDefinition(q, o.g.cfg.Agent)
	if err != nil {
		o.g.log.Error("a definition cannot be written", "queue", q.Name, "error", err) // its types have a JSON form
		return
	}
	o.swaps[q.Name] = true
	over := f != nil && f.problem == "" && f.queue.Layout() != q.Layout()
	done := func(_ uint64, err error) {
		o.g.post(func(o *owner) {
			if err == nil && over {
				o.relaid[q.Name] = true
			}
			o.replaced(q.Name, err)
		})
	}
	switch {
	case f != nil:
		o.g.bucket.Swap(definitionKey(q.Name), value, f.record, done)
	case o.stuck[q.Name]:
		// Two agents may do this at once: the later record holds, and the other agent follows it.
		o.g.bucket.Put(definitionKey(q.Name), value, done)
	default:
		o.g.bucket.Swap(definitionKey(q.Name), value, 0, done)
	}
}

// replaced takes the outcome. In every case the next evaluation looks at what is in force now.
func (o *owner) replaced(queue string, err error) {
	delete(o.swaps, queue)
	o.dirty = true
	now := time.Now()
	switch {
	case err == nil:
		// The mirror has shown the record already.
	case errors.Is(err, bucket.ErrConflict):
		// Another agent was faster, or an earlier write of this one was carried out after all. Look again.
		o.stuck[queue] = o.force[queue] == nil
		o.retry = now.Add(conflictGap)
	default:
		o.failed(now, err)
	}
}

// inUse is the definition of the i-th queue that holds here.
func (o *owner) inUse(i int) (q config.Queue, hash string) {
	f := o.force[o.own[i].Name]
	if !o.known || f == nil || f.problem != "" || f.same(o.stamps[i]) {
		return o.own[i], o.stamps[i].Hash
	}
	return f.queue, f.here
}

// publish shows readers the present state, and tells them when it has become another one.
func (o *owner) publish() {
	v := &view{peers: livePeers(&o.peers), warnings: o.warnings(), relaid: maps.Clone(o.relaid)}
	for i := range o.own {
		q, hash := o.inUse(i)
		v.definitions = append(v.definitions, q)
		v.hashes = append(v.hashes, hash)
	}
	for _, b := range o.beats {
		if demand, failing := o.g.demandOf(b.capsule.Name); demand {
			v.own = append(v.own, ownCapsule{b.capsule, failing})
		}
	}
	change := v.changeFrom(o.g.view.Load())
	o.g.view.Store(v)
	for _, queue := range change.Queues {
		if f := o.force[queue]; f != nil {
			o.g.log.Info("the definition of a queue has changed", "queue", queue, "revision", f.stamp.Revision, "set_by", f.setBy)
		}
	}
	if change.Peers || len(change.Queues) > 0 {
		for _, f := range o.g.allListeners() {
			f(change)
		}
	}
}
