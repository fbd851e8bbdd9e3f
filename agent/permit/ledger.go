package permit

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/due"
)

// Config is what a Ledger needs to know.
type Config struct {
	Holder string        // names this holder in records; unique to this run; one subject token
	Cap    int           // permits of a key; at least 1
	Wait   time.Duration // the queue's acknowledgement wait: silence after which a holder counts as gone
	Linger time.Duration // how long a freed permit may be kept for the next message of its key, at most
}

// Permit is the right to have one message of a key in flight.
type Permit struct {
	Key    string
	Number int

	seq uint64    // of its record
	at  time.Time // when it was claimed
}

// Answer is what came of a Want.
type Answer struct {
	Key     string
	Permits []Permit // possibly fewer than wanted
	Full    bool     // there are no more now
}

// Kind is what an Action asks for.
type Kind int

// The kinds of actions. Each but Reap is answered by exactly one event, also when it fails.
const (
	Beat    Kind = iota // store this holder's beat; then Beaten
	Claim               // store the record of Key and Number unless there is one; then Claimed
	Release             // delete the record Seq, or, if that is 0, this holder's record of Key and Number; then Released
	List                // list the records of Key; then Listed
	Survey              // list all beats, and the highest number of any record; then Surveyed
	Confirm             // read the beat of Holder at the leader, and before that the stream's last sequence; then Confirmed
	Reap                // delete all records of Holder up to and including Seq; then, in all ledgers, FreedAll
)

// Action is something to be done. Actions are to be started in their order: a claim may rely on the beat before it.
type Action struct {
	Kind   Kind
	Key    string
	Number int
	Seq    uint64
	Holder string
	At     time.Time // to be given back with Beaten
}

// Outcome is what came of a claim.
type Outcome int

// The outcomes of a claim.
const (
	Stored  Outcome = iota
	Refused         // there is a record of that number
	Failed          // nothing was stored
	Unknown         // it may have been stored
)

// Ledger is one holder's permits of one queue. See the package comment.
type Ledger struct {
	Config
	keys    map[string]*keyState
	timers  due.Queue[timer]
	actions []Action
	answers []Answer
	changed []string
	trust   trust
	peers   map[string]*peer
	// careful is true while records with numbers that the cap does not allow may be there: then a key's records are counted
	// before any is added.
	careful   bool
	surveying bool
	blocked   int // keys that are full
	slots     int // numbers that this holder has or is after, of all keys
}

// New returns a ledger without permits. Its first actions survey what others hold.
func New(c Config) *Ledger {
	l := &Ledger{Config: c, keys: map[string]*keyState{}, peers: map[string]*peer{}, careful: true}
	l.survey()
	return l
}

// keyState is what is known of one key.
type keyState struct {
	name  string
	slots map[int]*slot // numbers that this holder has or is after
	taken map[int]bool  // numbers that others had when last heard of
	next  []int         // numbers to try first: those that this holder had

	open     bool // a Want has no answer yet
	missing  int  // permits that it lacks
	granted  []Permit
	claiming int
	lists    int  // listings that it needed
	failed   bool // a claim of it could not be made

	listing  bool
	listedAt time.Time

	full    bool // there are no more permits, as far as is known
	retry   time.Duration
	retryAt time.Time
}

// numbers are those that this holder has or is after, in order.
func (k *keyState) numbers() []int {
	numbers := make([]int, 0, len(k.slots))
	for n := range k.slots {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

type slotState int

const (
	claiming slotState = iota
	granted            // belongs to a Want that has no answer yet
	used
	idle
	releasing
	doubtful // the outcome of its claim is unknown
)

type slot struct {
	Permit
	state slotState
	since time.Time
}

const (
	// firstRetry is when a full key is tried again if nobody tells that a permit was freed. It doubles each time.
	firstRetry = 250 * time.Millisecond
	// retryShare spreads such tries over the keys that are full.
	retryShare = 10 * time.Millisecond
	retryFloor = 500 * time.Millisecond
	// doubtAfter is when the record of a claim with an unknown outcome is removed: what was on its way has arrived by then.
	doubtAfter = time.Second
	// keyMemory is how long the pauses between tries of a key are remembered: they go on growing while the tries fail.
	keyMemory = time.Minute
)

// key returns the state of a key, new or not.
func (l *Ledger) key(name string) *keyState {
	k := l.keys[name]
	if k == nil {
		k = &keyState{name: name, slots: map[int]*slot{}, taken: map[int]bool{}}
		l.keys[name] = k
	}
	return k
}

// names are the keys of which something is known, in order.
func (l *Ledger) names() []string {
	names := make([]string, 0, len(l.keys))
	for name := range l.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// drop forgets a number that this holder has not.
func (l *Ledger) drop(k *keyState, s *slot) {
	delete(k.slots, s.Number)
	l.slots--
}

// forget drops a key of which nothing is left to know.
func (l *Ledger) forget(k *keyState) {
	if !k.open && !k.listing && len(k.slots) == 0 && !k.full {
		delete(l.keys, k.name)
	}
}

// Free says that a permit is not used any more. It is kept for the next message of its key until Trim, or for as long as
// permits linger.
func (l *Ledger) Free(p Permit, now time.Time) {
	k := l.keys[p.Key]
	if k == nil || k.slots[p.Number] == nil || k.slots[p.Number].seq != p.seq || k.slots[p.Number].state != used {
		return
	}
	s := k.slots[p.Number]
	s.state, s.since = idle, now
	if l.reusable(s, now) {
		l.timers.Add(now.Add(l.Linger), timer{timerIdle, p.Key})
	} else {
		l.release(s)
	}
	l.change(k)
}

// reusable tells whether a permit can be given out again.
func (l *Ledger) reusable(s *slot, now time.Time) bool {
	return s.state == idle && s.Number < l.Cap && l.Trusted(s.Permit, now)
}

// Trim releases the permits of a key that were freed and not used again.
func (l *Ledger) Trim(name string) {
	if k := l.keys[name]; k != nil {
		for _, n := range k.numbers() {
			if s := k.slots[n]; s.state == idle {
				l.release(s)
			}
		}
	}
}

// release deletes a record.
func (l *Ledger) release(s *slot) {
	s.state = releasing
	l.do(Action{Kind: Release, Key: s.Key, Number: s.Number, Seq: s.seq})
}

// Released takes in whether a record is gone. It is tried again until it is.
func (l *Ledger) Released(name string, number int, ok bool, now time.Time) {
	k := l.keys[name]
	if k == nil || k.slots[number] == nil || k.slots[number].state != releasing {
		return
	}
	if !ok {
		k.slots[number].state = doubtful
		l.timers.Add(now.Add(doubtAfter), timer{timerDoubt, name})
		return
	}
	l.drop(k, k.slots[number])
	k.next = append(k.next, number)
	l.empty(k)
	l.change(k)
	l.forget(k)
}

// Freed says that somebody released a permit of a key.
func (l *Ledger) Freed(name string) {
	if k := l.keys[name]; k != nil {
		l.again(k)
	}
}

// FreedAll says that permits of any keys were released.
func (l *Ledger) FreedAll() {
	for _, name := range l.names() {
		l.again(l.keys[name])
	}
}

// again lets a full key be tried anew.
func (l *Ledger) again(k *keyState) {
	clear(k.taken)
	if k.full && !k.open {
		l.empty(k)
		l.change(k)
		l.forget(k)
	}
}

// fill notes that a key has no more permits, as far as this holder can tell.
func (l *Ledger) fill(k *keyState, now time.Time) {
	if !k.full {
		k.full = true
		l.blocked++
	}
	if k.retry == 0 {
		k.retry = firstRetry
	} else {
		k.retry *= 2
	}
	k.retry = min(k.retry, max(retryFloor, time.Duration(l.blocked)*retryShare))
	k.retryAt = now.Add(k.retry)
	l.timers.Add(k.retryAt, timer{timerRetry, k.name})
}

// empty notes that a key may have permits again.
func (l *Ledger) empty(k *keyState) {
	if k.full {
		k.full = false
		l.blocked--
	}
}

// Room is how many permits of a key may be wanted now. It is 0 while a Want is open.
func (l *Ledger) Room(name string) int {
	k := l.keys[name]
	if k == nil {
		return l.Cap
	}
	if k.open {
		return 0
	}
	free, have := 0, 0
	for _, s := range k.slots { // counted, in any order
		if s.state == idle && s.Number < l.Cap {
			free++
		} else {
			have++
		}
	}
	if k.full {
		return free
	}
	return max(l.Cap-have, 0)
}

// SetCap changes how many permits a key has.
func (l *Ledger) SetCap(n int) {
	if n == l.Cap {
		return
	}
	if n < l.Cap {
		l.careful = true
		l.survey()
	}
	l.Cap = n
	l.FreedAll()
	for _, name := range l.names() {
		l.change(l.keys[name])
	}
}

// Reconnected says that what others did may not have been heard for a while.
func (l *Ledger) Reconnected() {
	l.survey()
	l.FreedAll()
}

func (l *Ledger) do(a Action) { l.actions = append(l.actions, a) }

func (l *Ledger) change(k *keyState) { l.changed = append(l.changed, k.name) }

// Actions returns what is to be done since it was last called, in order.
func (l *Ledger) Actions() []Action {
	a := l.actions
	l.actions = nil
	return a
}

// Answers returns what came of Wants since it was last called.
func (l *Ledger) Answers() []Answer {
	a := l.answers
	l.answers = nil
	return a
}

// Changed returns the keys whose Room may be another since it was last called.
func (l *Ledger) Changed() []string {
	c := l.changed
	l.changed = nil
	return c
}

// Held is how many permits this holder has or is after.
func (l *Ledger) Held() int { return l.slots }

// Full is how many keys have no more permits, as far as this holder can tell.
func (l *Ledger) Full() int { return l.blocked }
