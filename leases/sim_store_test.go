package leases

import "time"

// weather is how badly the world treats requests, in parts per thousand.
type weather struct {
	lost, unanswered, falseConflict, twice, refused, stale, slow int
	cut, pause, kill, demand, silence, bucket, remove            int // per chance, twice a second
}

var (
	fair  = weather{}
	storm = weather{
		lost: 40, unanswered: 50, falseConflict: 40, twice: 30, refused: 30, stale: 60, slow: 60,
		cut: 30, pause: 20, kill: 8, demand: 15, silence: 15, bucket: 3, remove: 4,
	}
	// spite is what must never cost a holder its lease.
	spite = weather{lost: 40, unanswered: 40, falseConflict: 200, twice: 50, refused: 50, stale: 100, slow: 40}
)

// simStore is the bucket: one record, linearizable.
type simStore struct {
	w        *world
	revision uint64
	log      []Seen // of this bucket
	gone     bool
	born     int64 // when it was made anew
}

func newSimStore(w *world) *simStore {
	return &simStore{w: w, revision: 1_700_000_000_000_000}
}

func (s *simStore) current() Seen {
	if len(s.log) == 0 {
		return Seen{}
	}
	return s.log[len(s.log)-1]
}

func (s *simStore) commit(r Record) uint64 {
	s.revision += 1 + uint64(s.w.rnd.IntN(5)) // other records share the bucket
	s.log = append(s.log, Seen{s.revision, r})
	for _, a := range s.w.agents {
		s.w.show(a, s.current())
	}
	return s.revision
}

// remove is an operator who deletes the record.
func (s *simStore) remove() {
	if !s.gone && len(s.log) > 0 {
		s.commit(Record{})
	}
}

func (s *simStore) drop() {
	s.gone = true
	for _, a := range s.w.agents {
		if s.w.rnd.IntN(2) == 0 {
			s.w.tell(a, s.w.latency(), func(now time.Time) { a.m.Gone(now) })
		}
	}
}

func (s *simStore) recreate() {
	if s.gone {
		s.gone, s.log, s.born = false, nil, s.w.at
		s.revision += 1_000_000
	}
}

// request carries an action of a's machine to the store, and the answer back.
func (w *world) request(a *simAgent, act Action) {
	life, line := a.life, a.line
	reach := func() bool { return a.life == life && a.line == line && !w.isCut(a) }
	if w.isCut(a) || w.roll(w.now.lost) {
		return
	}
	copies := 1
	if act.Kind == Write && w.roll(w.now.twice) {
		copies = 2
	}
	for range copies {
		stay, back := w.travel(), w.travel()
		w.after(stay, func() {
			answer := w.serve(a, act)
			if w.roll(w.now.unanswered) {
				return
			}
			w.after(back, func() {
				if reach() {
					w.tell(a, 0, answer)
				}
			})
		})
	}
}

// serve carries a request out at the store and returns the answer as an event of the machine.
func (w *world) serve(a *simAgent, act Action) func(time.Time) {
	s := w.store
	id := act.Request
	not := func(why Outcome) func(time.Time) {
		if act.Kind == Read {
			return func(now time.Time) { a.m.ReadFailed(now, id, why) }
		}
		return func(now time.Time) { a.m.NotWritten(now, id, why) }
	}
	switch {
	case w.roll(w.now.refused):
		return not(Refused)
	case s.gone:
		return not(BucketGone)
	case act.Kind == Read:
		seen := s.current()
		if n := len(s.log); n > 1 && w.roll(w.now.stale) {
			seen = s.log[max(0, n-1-w.rnd.IntN(4))]
		}
		return func(now time.Time) { a.m.ReadDone(now, id, seen) }
	case s.current().Revision != act.Expected, w.roll(w.now.falseConflict):
		return not(Conflict)
	}
	revision := s.commit(act.Record)
	if a.flaw == storeTTL && act.Record.Fence == 0 && act.Record.Holder != "" {
		w.after(int64(act.Record.TTL), func() {
			if s.current().Revision == revision { // else it was renewed, and the TTL dropped
				s.remove()
			}
		})
	}
	w.landed(a, act)
	if w.roll(w.now.falseConflict) {
		return not(Conflict)
	}
	return func(now time.Time) {
		a.acked = max(a.acked, a.sent[id])
		a.repliedAt = w.at
		a.m.Written(now, id, revision)
	}
}

// show lets a's watch show a record, in time, late, or not at all.
func (w *world) show(a *simAgent, s Seen) {
	line := a.line
	if a.silent || a.dead {
		return
	}
	w.after(w.travel(), func() {
		if a.line == line && !w.isCut(a) && !a.silent {
			w.tell(a, 0, func(now time.Time) { a.m.Watched(now, s) })
		}
	})
}

// travel is how long a message is under way.
func (w *world) travel() int64 {
	if w.roll(w.now.slow) {
		return int64(w.rnd.IntN(3_000_000_000))
	}
	return w.latency()
}

func (w *world) latency() int64 { return 200_000 + int64(w.rnd.IntN(4_800_000)) }
