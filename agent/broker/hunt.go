package broker

import (
	"context"
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// spot is where a message is stored. Whether it waits there, is in somebody's hands or is backing off is for its lane to say.
type spot struct {
	seq     uint64
	class   string // its class token
	address Address
	known   bool // false: no lane reads it until it was repaired
}

// query asks for the first message at or after a sequence, of a class or of one (class, key).
type query struct {
	class string
	key   string // a key token; "*": all
	from  uint64
}

// grounds is what a hunt looks for victims in: a queue, or its model.
type grounds interface {
	// look answers each query; the spot of one that finds nothing has the sequence 0.
	look(ctx context.Context, queries []query) ([]spot, error)
	// take takes the oldest waiting message of a spot's lane; none is nil. Nothing in the lane waits at or before upTo, but
	// for the message itself.
	take(ctx context.Context, s spot) (m *Message, upTo uint64, err error)
	// passed tells, without taking anything, how far the lane of a spot has come: what it stores up to there was handed out at
	// least once. waits is true when it has something behind that.
	passed(ctx context.Context, s spot) (upTo uint64, waits bool, err error)
	// back tells that a message is known to have been returned, and that its time has come.
	back(seq uint64) bool
	// busy tells that a message is known not to wait: it is in this agent's hands, or backs off until then.
	busy(seq uint64) (until time.Time, busy bool)
}

// hunt decides who has to go so that a newcomer can be stored, and takes them through their lanes: what was taken is in
// nobody else's hands. It is one decision; what it has learned goes on in the marks.
//
// The victim is the oldest waiting message of the lowest level that has one, if that level is not above the newcomer's. The
// first stored message of a level shows where to begin. Where tenants have lanes of their own, its lane is asked how far it
// has come: if the message was handed out before, it does not wait, and the next stored one is looked at; what is taken in
// vain would have to go back. If its lane then gives that very message, it is the oldest; if the lane gives a later one, the
// first has just been taken, and the next stored one has to be seen before the choice is made. So the cost grows with the
// number of older messages that do not wait, of which the marks remember most, and not with the number of those that do.
type hunt struct {
	grounds
	marks  *marks
	layout Layout
	levels [][]string // the classes that are served at each level
	heads  map[string]spot
	sure   map[Address]uint64 // up to where a lane that was taken from has nothing, not even what was returned
	doubt  []spot             // of the present level: passed over because their lanes have handed them out, which may be long ago
	taken  []*Message         // and not chosen, yet
}

// want is what a hunt is for.
type want struct {
	missing
	level   int   // of the newcomer, as it is served
	subject query // the newcomer's own class and key
	// size is what a message that goes makes room for.
	size func(*Message) int64
}

func newHunt(g grounds, layout Layout, marks *marks, strange []string) *hunt {
	h := &hunt{grounds: g, marks: marks, layout: layout, levels: make([][]string, layout.Levels), heads: map[string]spot{}, sure: map[Address]uint64{}}
	for level := range h.levels {
		h.levels[level] = []string{names.Class(level)}
	}
	h.levels[layout.Default] = append(h.levels[layout.Default], names.NoPriority)
	h.levels[layout.Levels-1] = append(h.levels[layout.Levels-1], strange...)
	return h
}

// choose returns who has to go; all of them were taken. A [FullError] says that the newcomer is refused, and that nobody has
// to go. Whatever else it took is left in h.taken, to be given back; that goes for everything it took if there is an error.
func (h *hunt) choose(ctx context.Context, w want) (victims []*Message, err error) {
	defer func() {
		if err != nil {
			h.taken, victims = append(h.taken, victims...), nil
		}
	}()
	victims, left, err := h.ofSubject(ctx, w)
	if err != nil {
		return victims, err
	}
	for level := h.layout.Levels - 1; level >= w.level && !left.nothing(); level-- {
		if err := h.open(ctx, level, w.level); err != nil {
			return victims, err
		}
		h.doubt = nil
		for !left.nothing() {
			m, err := h.next(ctx, level)
			if err != nil {
				return victims, err
			}
			if m == nil {
				break
			}
			victims, left = append(victims, m), left.less(w.size(m))
		}
	}
	if left.nothing() {
		return victims, nil
	}
	refusal, err := h.refusal(ctx, w, len(victims) > 0)
	if err != nil {
		return victims, err
	}
	return victims, refusal
}

// ofSubject chooses those that have to go because their tenant has too many messages at their level: its oldest ones. A
// queue that does not share fairly has no lane of a tenant's own, through which one could be taken.
func (h *hunt) ofSubject(ctx context.Context, w want) (victims []*Message, left missing, err error) {
	left = w.missing
	for left.ofSubject > 0 {
		full := &FullError{Reason: wire.FullKey}
		if !h.layout.Keyed {
			return victims, left, full
		}
		spots, err := h.look(ctx, []query{w.subject})
		if err != nil {
			return victims, left, err
		}
		if spots[0].seq == 0 {
			return victims, left, full
		}
		m, _, err := h.take(ctx, spots[0])
		if err != nil {
			return victims, left, err
		}
		if m == nil {
			return victims, left, full
		}
		victims, left = append(victims, m), left.less(w.size(m))
		left.ofSubject--
	}
	return victims, left, nil
}

// open looks at the first messages of a level. The lowest level is looked at alone, since it is likely to have what is
// needed; all others at once.
func (h *hunt) open(ctx context.Context, level, highest int) error {
	if _, ok := h.heads[names.Class(level)]; ok {
		return nil
	}
	if level == h.layout.Levels-1 {
		highest = level
	}
	var queries []query
	for l := level; l >= highest; l-- {
		for _, class := range h.levels[l] {
			queries = append(queries, query{class, "*", h.marks.from(class)})
		}
	}
	spots, err := h.look(ctx, queries)
	if err != nil {
		return err
	}
	for i, s := range spots {
		h.heads[queries[i].class] = s
	}
	return nil
}

// reopen looks at classes of a level whose first message was chosen.
func (h *hunt) reopen(ctx context.Context, level int) error {
	for _, class := range h.levels[level] {
		if _, ok := h.heads[class]; !ok {
			if err := h.advance(ctx, spot{class: class}, h.marks.from(class)); err != nil {
				return err
			}
		}
	}
	return nil
}

// next takes the oldest waiting message of a level; nil when none waits there.
func (h *hunt) next(ctx context.Context, level int) (*Message, error) {
	for {
		if err := h.reopen(ctx, level); err != nil {
			return nil, err
		}
		s := h.first(level)
		if best := h.oldest(level); best >= 0 && (s.seq == 0 || h.taken[best].Seq <= s.seq) {
			m := h.taken[best]
			h.taken = slices.Delete(h.taken, best, best+1)
			if m.Seq == s.seq {
				h.marks.passed(s.class, s.seq+1, time.Time{})
				delete(h.heads, s.class) // to be looked at again if more has to go
			}
			return m, nil
		}
		if s.seq == 0 {
			if found, err := h.ask(ctx); !found {
				return nil, err
			}
			continue
		}
		if err := h.try(ctx, s); err != nil {
			return nil, err
		}
	}
}

// try takes from the lane of the level's first stored message, or passes over it when that does not wait.
func (h *hunt) try(ctx context.Context, s spot) error {
	if !s.known {
		return h.pass(ctx, s, s.seq, time.Time{})
	}
	if until, busy := h.busy(s.seq); busy {
		return h.pass(ctx, s, s.seq, until)
	}
	if upTo := h.sure[s.address]; s.seq <= upTo {
		return h.pass(ctx, s, upTo, time.Time{})
	}
	back := h.back(s.seq)
	if upTo := h.marks.upTo(s.address); s.seq <= upTo && !back {
		h.doubt = append(h.doubt, s)
		return h.pass(ctx, s, upTo, time.Time{})
	}
	if h.layout.Keyed && !h.marks.private(s.address) && !back {
		upTo, _, err := h.passed(ctx, s)
		if err != nil {
			return err
		}
		h.marks.noneUpTo(s.address, upTo)
		if s.seq <= upTo {
			h.marks.share(s.address)
			h.doubt = append(h.doubt, s)
			return h.pass(ctx, s, upTo, time.Time{})
		}
	}
	m, upTo, err := h.take(ctx, s)
	if err != nil {
		return err
	}
	h.marks.noneUpTo(s.address, upTo)
	h.sure[s.address] = upTo
	if m != nil {
		h.taken = append(h.taken, m)
	}
	if s.seq <= upTo {
		h.marks.share(s.address)
	}
	return nil
}

// ask takes from the lanes whose messages were all handed out before: whoever had one may have died. It is true when one
// gave something.
func (h *hunt) ask(ctx context.Context) (bool, error) {
	for len(h.doubt) > 0 {
		s := h.doubt[0]
		h.doubt = h.doubt[1:]
		if s.seq <= h.sure[s.address] {
			continue
		}
		m, upTo, err := h.take(ctx, s)
		if err != nil {
			return false, err
		}
		h.sure[s.address] = upTo
		if m != nil {
			h.taken = append(h.taken, m)
			return true, nil
		}
	}
	return false, nil
}

// pass goes on behind a message that does not wait, and in a queue without lanes of tenants behind all that its lane has
// shown not to.
func (h *hunt) pass(ctx context.Context, s spot, upTo uint64, until time.Time) error {
	if h.layout.Keyed {
		upTo = s.seq
	}
	h.marks.passed(s.class, upTo+1, until)
	return h.advance(ctx, s, upTo+1)
}

func (h *hunt) advance(ctx context.Context, s spot, from uint64) error {
	spots, err := h.look(ctx, []query{{s.class, "*", from}})
	if err == nil {
		h.heads[s.class] = spots[0]
	}
	return err
}

// first is the oldest message of a level that is stored and was not passed over.
func (h *hunt) first(level int) (first spot) {
	for _, class := range h.levels[level] {
		if s := h.heads[class]; s.seq > 0 && (first.seq == 0 || s.seq < first.seq) {
			first = s
		}
	}
	return first
}

// oldest is the index of the oldest message that was taken from a level and not chosen; -1 is none.
func (h *hunt) oldest(level int) int {
	best := -1
	for i, m := range h.taken {
		if m.Level == level && (best < 0 || m.Seq < h.taken[best].Seq) {
			best = i
		}
	}
	return best
}

// aboveMost is how many messages of each class are looked at to tell a refusal's reason.
const aboveMost = 8

// refusal says why nobody has to go: everything that waits ranks above the newcomer, or nothing waits at all.
func (h *hunt) refusal(ctx context.Context, w want, some bool) (*FullError, error) {
	full := &FullError{Reason: wire.FullMessages}
	if w.messages <= 0 {
		full.Reason = wire.FullBytes
	}
	if some || w.level == 0 {
		return full, nil // some would go, and they are not enough
	}
	for level := range w.level {
		for _, class := range h.levels[level] {
			waits, err := h.anyWaits(ctx, class)
			if err != nil {
				return nil, err
			}
			if waits {
				return &FullError{Reason: wire.FullLower}, nil
			}
		}
	}
	return full, nil
}

func (h *hunt) anyWaits(ctx context.Context, class string) (bool, error) {
	at, asked := query{class, "*", 1}, map[Address]bool{}
	for range aboveMost {
		spots, err := h.look(ctx, []query{at})
		if err != nil || spots[0].seq == 0 {
			return false, err
		}
		s := spots[0]
		if _, busy := h.busy(s.seq); s.known && !busy {
			if h.back(s.seq) {
				return true, nil
			}
			if !asked[s.address] {
				asked[s.address] = true
				if _, waits, err := h.passed(ctx, s); err != nil || waits {
					return waits, err
				}
			}
		}
		at.from = s.seq + 1
	}
	return false, nil
}
