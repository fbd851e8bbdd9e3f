package controls

import (
	"cmp"
	"slices"
)

// Change is something that was set, set otherwise, or taken back.
type Change struct {
	Control
	Set bool // false: it was taken back; then only the Thing is known
}

// Settings is all that is set for one queue.
type Settings struct {
	Paused  *Control  // nil: it is not
	Keys    []Control // paused tenants, by key
	Weights []Control // overridden weights, by key
}

// state is what is set, as far as records have told. It is a value: no lock, no clock. The zero value is empty.
type state struct {
	set map[Thing]Control
}

// put notes that a thing is set. It reports whether that makes a difference to anybody: who says what holds already only
// changes who said it.
func (s *state) put(c Control) (Change, bool) {
	if s.set == nil {
		s.set = map[Thing]Control{}
	}
	before, had := s.set[c.Thing]
	s.set[c.Thing] = c
	return Change{Control: c, Set: true}, !had || before.Weight != c.Weight
}

// remove notes that a thing is not set any more. It reports whether it was.
func (s *state) remove(t Thing) (Change, bool) {
	_, had := s.set[t]
	delete(s.set, t)
	return Change{Control: Control{Thing: t}}, had
}

// of returns what is set for a queue.
func (s *state) of(queue string) Settings {
	var q Settings
	for t, c := range s.set { // sorted below
		if t.Queue != queue {
			continue
		}
		switch t.Kind {
		case QueuePause:
			q.Paused = &c
		case KeyPause:
			q.Keys = append(q.Keys, c)
		case KeyWeight:
			q.Weights = append(q.Weights, c)
		}
	}
	byKey := func(a, b Control) int { return cmp.Compare(a.Key, b.Key) }
	slices.SortFunc(q.Keys, byKey)
	slices.SortFunc(q.Weights, byKey)
	return q
}
