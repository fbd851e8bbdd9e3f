package fairshare

// Outcome says what came of asking for the next turn.
type Outcome uint8

const (
	// Idle: no key is believed to have work.
	Idle Outcome = iota
	// Picked: there is a turn, and it has been charged.
	Picked
	// Blocked: the next turn belongs to a key that is held (see
	// [Picker.Hold]), or that has so many unsettled turns already that their
	// results must be known first. Nothing was charged. Picking somebody else
	// now would be out of order.
	Blocked
)

// String gives the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case Idle:
		return "idle"
	case Picked:
		return "picked"
	case Blocked:
		return "blocked"
	default:
		return "unknown outcome"
	}
}

// Turn is one key's right to the next message. It is a plain value; copying it
// does not copy the right. Each turn that [Picker.Pick] gives is either settled
// or refunded, once, at the Picker that gave it. The zero Turn belongs to nobody
// and is ignored.
type Turn struct {
	// Key is whose turn it is.
	Key string
	// Weight is what the turn was charged with when it was picked.
	Weight Weight

	gen   uint32
	entry *entry
}

// Open reports whether the turn can still be settled or refunded. A turn that
// was settled before counts as open for as long as its key has other unsettled
// turns; they are not told apart.
func (t *Turn) Open() bool {
	return t.entry != nil && t.entry.gen == t.gen && t.entry.unsettled > 0
}

// maxUnsettled bounds the unsettled turns of one key. Together with scale it
// bounds how far passes can run ahead of virtual time (see rebase): half a
// million turns of the smallest weight are 2^60 units.
const maxUnsettled = 1 << 19

// Peek tells who is next, without charging anybody. The key is that of the next
// turn both when the outcome is Picked and when it is Blocked.
func (p *Picker) Peek() (key string, outcome Outcome) {
	if p.active.len() == 0 {
		return "", Idle
	}
	e := p.active.first()
	if e.held || e.unsettled >= maxUnsettled {
		return e.key, Blocked
	}
	return e.key, Picked
}

// Pick gives the next turn and charges it with the key's expected weight. The
// charge is tentative: further picks go by it, virtual time does not, until
// [Picker.Settle] confirms it or [Picker.Refund] takes it back. So a batch of
// picks names the same keys in the same order as picking and settling one by
// one would.
//
// The Turn is zero unless the outcome is Picked. O(log keys), no allocation.
func (p *Picker) Pick() (Turn, Outcome) {
	if p.active.len() == 0 {
		return Turn{}, Idle
	}
	e := p.active.first()
	if e.held || e.unsettled >= maxUnsettled {
		return Turn{}, Blocked
	}
	if e.tentative.units >= rebaseAbove {
		p.rebase()
	}
	e.tentative.add(e.weight)
	e.unsettled++
	p.unsettled++
	p.active.fix(e)
	return Turn{Key: e.key, Weight: e.weight, gen: e.gen, entry: e}, Picked
}

// Settle says that the turn brought a message, and which weight that really
// had. The key has now paid for it, at that weight, and virtual time advances
// to where the turn began. An invalid weight counts as [One].
//
// To get what single picks would give, settle and refund the turns of a batch
// in the order in which they were picked. Any other order is safe, and the
// charges come out the same; only virtual time may advance a little earlier.
//
// Settle reports whether the turn was still open. If it was not, nothing
// happens; see [Turn.Open].
func (p *Picker) Settle(t Turn, actual Weight) bool {
	if !t.Open() {
		return false
	}
	e := t.entry
	actual = actual.orOne()
	p.virtual = max(p.virtual, e.settled.units)
	e.settled.add(actual)
	if actual != t.Weight {
		e.tentative.sub(t.Weight)
		e.tentative.add(actual)
	}
	p.close(e)
	return true
}

// Refund says that the turn brought nothing. Its charge is undone as if it had
// never been picked, also when the key's weight was changed in between.
//
// A key that has nothing is usually put to sleep as well, else it is next again
// at once: a refunded key keeps the place that it has been waiting for.
//
// Like [Picker.Settle], it reports whether the turn was still open.
func (p *Picker) Refund(t Turn) bool {
	if !t.Open() {
		return false
	}
	t.entry.tentative.sub(t.Weight)
	p.close(t.entry)
	return true
}

// close counts one unsettled turn less and puts the entry where it now belongs.
func (p *Picker) close(e *entry) {
	e.unsettled--
	p.unsettled--
	// Without unsettled turns the two passes are the same by definition, which
	// also ends any rounding that turns of different weights have left behind.
	// And before that, neither rounding nor a turn that was settled twice may
	// carry the one below the other (as a difference: it can have wrapped).
	if e.unsettled == 0 || int64(e.tentative.units-e.settled.units) < 0 {
		e.tentative = e.settled
	}
	if e.active {
		p.active.fix(e)
	} else {
		p.resting.fix(e)
	}
	p.forget()
}
