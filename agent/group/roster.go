package group

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
)

// roster is what is known of the other agents' heartbeats. It is a value: it takes the time, and all times are the
// observer's.
type roster struct {
	staleAfter time.Duration
	forgetAge  time.Duration // unchanged for so long: the record is deleted

	records []*record // by key
}

type record struct {
	key     string
	beat    heartbeat
	ok      bool // the record could be read
	changed time.Time
	live    bool
}

func (r *roster) find(key string) (int, bool) {
	return slices.BinarySearchFunc(r.records, key, func(x *record, key string) int { return strings.Compare(x.key, key) })
}

// apply takes over a change of a record. It reports whether that matters to anyone: most heartbeats only say "still here".
func (r *roster) apply(e bucket.Entry, now time.Time) bool {
	i, found := r.find(e.Key)
	if e.Deleted {
		if !found {
			return false
		}
		r.records = slices.Delete(r.records, i, i+1)
		return true
	}
	h, ok := readHeartbeat(e.Value)
	if !found {
		r.records = slices.Insert(r.records, i, &record{key: e.Key, beat: h, ok: ok, changed: now, live: true})
		return true
	}
	x := r.records[i]
	matters := !x.live || ok != x.ok || !sameBeat(x.beat, h)
	x.beat, x.ok, x.changed, x.live = h, ok, now, true
	return matters
}

// judge calls those stale whose record had been unchanged for too long at a time up to which everything was seen. It
// returns the keys of records that can be deleted, and whether anyone has become stale.
func (r *roster) judge(seen time.Time) (forgotten []string, changed bool) {
	for _, x := range r.records {
		age := seen.Sub(x.changed)
		if x.live && age >= r.limit(x) {
			x.live = false
			changed = true
		}
		if age >= r.forgetAge {
			forgotten = append(forgotten, x.key)
		}
	}
	return forgotten, changed
}

// skip leaves a time that has just ended out of the account, because nothing could be heard in it.
func (r *roster) skip(silence time.Duration, now time.Time) {
	for _, x := range r.records {
		if x.changed = x.changed.Add(silence); x.changed.After(now) {
			x.changed = now
		}
	}
}

// limit is staleAfter, but for an agent that says itself that it writes less often.
func (r *roster) limit(x *record) time.Duration {
	if i := x.beat.interval(); i >= r.staleAfter {
		return 2 * i
	}
	return r.staleAfter
}

// next is when the next record becomes suspect or forgettable; zero: none.
func (r *roster) next() time.Time {
	var next time.Time
	for _, x := range r.records {
		at := x.changed.Add(r.forgetAge)
		if x.live {
			at = x.changed.Add(min(r.limit(x), r.forgetAge))
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// carried tells whether a live agent's file has the definition.
func (r *roster) carried(queue string, f *force) bool {
	for _, x := range r.records {
		if x.live && f.carriedBy(x.beat.Definitions[queue]) {
			return true
		}
	}
	return false
}

// outranked tells whether a live agent's file has a higher revision of a queue's definition.
func (r *roster) outranked(queue string, revision int64) bool {
	for _, x := range r.records {
		if s, ok := x.beat.Definitions[queue]; x.live && ok && s.Revision > revision {
			return true
		}
	}
	return false
}

// strangers lists the live agents, sorted, whose file has another definition of a queue than the one in force.
func (r *roster) strangers(queue string, f *force) (agents []string) {
	for _, x := range r.records {
		if s, ok := x.beat.Definitions[queue]; x.live && ok && !f.carriedBy(s) {
			agents = append(agents, x.beat.Agent)
		}
	}
	slices.Sort(agents)
	return slices.Compact(agents)
}

// sameBeat compares all but what changes with every heartbeat.
func sameBeat(a, b heartbeat) bool {
	if len(a.Definitions) != len(b.Definitions) {
		return false
	}
	for queue, s := range a.Definitions { // all must agree, in any order
		if b.Definitions[queue] != s {
			return false
		}
	}
	return a.Agent == b.Agent && a.Boot == b.Boot && a.Capsule == b.Capsule && a.Demand == b.Demand && a.Failing == b.Failing &&
		a.ConsumerPriority == b.ConsumerPriority && a.IntervalMS == b.IntervalMS && slices.Equal(a.Queues, b.Queues)
}
