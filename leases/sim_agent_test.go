package leases

import (
	"fmt"
	"time"
)

// control is a way to get it wrong.
type control uint8

const (
	right        control = iota
	noDeadline           // holds until it sees that it was replaced
	trustFromNow         // trust counts from when an answer came
	watchOnly            // does not poll
	// storeTTL leaves it to the store to delete a silent holder's record, with a TTL on the key, which renewals drop: what
	// an update of a key does to it.
	storeTTL
)

// simAgent is the shell of one machine.
type simAgent struct {
	w      *world
	index  int
	id     string
	m      *Machine
	cfg    Config
	clock  simClock
	flaw   control
	boots  int
	life   int // grows when it is killed
	line   int // grows when it is disconnected
	timer  int // grows when the timer is set anew
	wanted bool
	dead   bool
	diedAt int64

	priority    int
	pausedUntil int64
	cutUntil    int64
	silent      bool
	up          bool // what it knows of its connection

	working bool
	asked   bool // to hand over

	blind     bool             // its last claim into an empty bucket was made without having seen any record before
	sent      map[uint64]int64 // local nanoseconds, by request
	stored    int64            // local time of sending of the newest write that was carried out
	acked     int64
	repliedAt int64

	fence uint64 // of the tenure that it believes in
	nonce string
	until int64 // of the world's time
	over  bool
	open  bool
}

func newSimAgent(w *world, index int, ttl time.Duration) *simAgent {
	a := &simAgent{w: w, index: index, id: fmt.Sprintf("agent%d", index)}
	a.cfg = Config{ID: a.id, TTL: ttl}.WithDefaults()
	a.start(nil)
	return a
}

func (a *simAgent) start(ended []string) {
	a.boots++
	a.cfg.Boot, a.cfg.Ended = fmt.Sprintf("%s.%d", a.id, a.boots), ended
	a.clock = simClock{
		epoch: int64(a.w.rnd.IntN(1_000_000)) * 1e9, drift: int64(a.w.rnd.IntN(101) - 50),
		wall: time.Duration(a.w.rnd.IntN(20_000)-10_000) * time.Hour,
	}
	a.m = New(a.cfg, a.w.rnd)
	a.sent = map[uint64]int64{}
	a.dead, a.silent, a.working, a.asked, a.up = false, false, false, false, true
	a.fence, a.stored, a.acked, a.pausedUntil = 0, 0, 0, 0
	a.roster()
	a.w.show(a, a.w.store.current())
}

// kill ends a process without warning; a new one starts after a time. It may know that its predecessor has ended.
func (w *world) kill(a *simAgent, down int64) {
	if a.dead {
		return
	}
	w.note("%s is killed", a.id)
	a.life++
	a.line++
	a.dead, a.diedAt, a.fence = true, w.at, 0
	old := a.cfg.Boot
	w.after(w.stale, func() { w.rosters() })
	w.after(down, func() {
		var ended []string
		if w.rnd.IntN(2) == 0 {
			ended = []string{old}
		}
		a.start(ended)
		w.note("%s starts again, knowing of the end of %v", a.id, ended)
		if a.wanted {
			a.wanted = false
			a.want(true)
		}
	})
}

func (a *simAgent) want(wanted bool) {
	a.wanted = wanted
	a.w.note("%s wants it: %v", a.id, wanted)
	a.w.tell(a, 0, func(now time.Time) {
		if a.wanted { // a later change may have overtaken this one
			a.m.Want(now)
		} else {
			a.working = false
			a.m.Unwant(now)
		}
	})
	a.w.rosters()
}

// rosters lets everybody know who else lives and wants the lease.
func (w *world) rosters() {
	for _, a := range w.agents {
		a.roster()
	}
}

func (a *simAgent) roster() {
	w := a.w
	w.tell(a, w.latency()*3, func(now time.Time) {
		var others []Peer
		for _, p := range w.agents {
			if p != a && p.wanted && (!p.dead || w.at-p.diedAt < w.stale) {
				others = append(others, Peer{p.id, p.priority})
			}
		}
		w.rnd.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		a.m.Peers(now, a.priority, others)
	})
}

// tell gives an event to a's machine, once the process runs.
func (w *world) tell(a *simAgent, d int64, event func(time.Time)) {
	life := a.life
	w.after(d, func() {
		if a.life != life || a.dead {
			return
		}
		if a.pausedUntil > w.at {
			w.tell(a, a.pausedUntil-w.at+int64(w.rnd.IntN(2_000_000)), event)
			return
		}
		event(a.clock.local(w.at))
		a.after()
	})
}

// after carries out what the machine asks for, and checks what it may do now.
func (a *simAgent) after() {
	w := a.w
	if a.flaw == storeTTL && !a.m.view.heldUntil.IsZero() {
		a.m.view.heldUntil = a.clock.local(w.at).Add(time.Hour)
	}
	actions := a.m.Actions()
	for _, act := range actions {
		if act.Kind == End && act.Reason != Expired {
			a.over = true // that, at least, every control obeys
		}
	}
	a.settle()
	a.over = false
	for _, act := range actions {
		switch act.Kind {
		case Begin:
			w.begun++
			w.note("%s begins tenure %d", a.id, act.Fence)
			if act.Fence <= w.fence {
				w.fail("S4: %s begins tenure %d after %d", a.id, act.Fence, w.fence)
			}
			w.fence, a.asked = act.Fence, false
		case End:
			w.ends[act.Reason]++
			w.note("%s ends tenure %d: %s", a.id, act.Fence, act.Reason)
			a.ended(act)
		case HandOver:
			a.asked = true
			a.idle()
		case Keep:
			a.asked = false
		case Read, Write:
			if act.Kind == Read && a.flaw == watchOnly && a.m.resolve == 0 && a.m.view.known {
				continue
			}
			a.sent[act.Request] = a.nanos()
			if act.Kind == Write && act.Expected == 0 {
				a.blind = a.m.view.top == 0
			}
			w.note("%s sends %d (%d): %+v at %d", a.id, act.Request, act.Kind, act.Record, act.Expected)
			w.request(a, act)
		case Rewatch:
			if a.flaw == watchOnly || w.rnd.IntN(4) == 0 {
				continue
			}
			a.silent = false
			w.show(a, w.store.current())
		}
	}
	a.arm()
	a.handOut()
}

func (a *simAgent) nanos() int64 { return int64(a.clock.local(a.w.at).Sub(clockTime(0, 0))) }

// settle takes over what the machine grants, and checks that nobody else has it.
func (a *simAgent) settle() {
	w, g := a.w, a.m.Grant()
	before, until := a.fence, a.until
	if g.Held(a.clock.local(w.at)) {
		a.fence, a.nonce, a.until, a.open = g.Fence, a.m.tenure.nonce, a.clock.global(g.Until), g.Trusted(a.clock.local(w.at))
	} else {
		a.fence, a.open = 0, false
	}
	switch {
	case a.over:
	case a.flaw == noDeadline && a.fence == 0 && before != 0:
		if v := a.m.view; !v.known || v.seen.Record.boot() == a.cfg.Boot {
			a.fence, a.until, a.open = before, w.at+int64(time.Hour), true
		}
	case a.flaw == trustFromNow && (before != 0 || a.fence != 0):
		if a.fence == 0 {
			a.fence = before
		}
		a.until, a.open = max(until, a.repliedAt+int64(a.cfg.trust())), true
		if a.until <= w.at {
			a.fence = 0
		}
	}
	if a.fence == 0 {
		return
	}
	for _, o := range w.agents {
		if o == a || o.dead || o.fence == 0 || o.until <= w.at {
			continue
		}
		// Who has never seen a record cannot know of a holder in an earlier bucket: the stated exception.
		if young := w.at-w.store.born < int64(10*time.Second); w.store.born > 0 && young && (a.blind || o.blind) {
			w.excused = w.at + int64(10*time.Second)
			continue
		}
		if w.at >= w.excused {
			w.fail("S3: %s holds %d until %s, and %s %d until %s", a.id, a.fence, time.Duration(a.until), o.id, o.fence, time.Duration(o.until))
		}
	}
}

// ended checks that a tenure was not given up for nothing.
func (a *simAgent) ended(act Action) {
	r := a.w.store.current().Record
	if (act.Reason == Replaced || act.Reason == Vanished) && !a.w.store.gone && r.Holder == a.id && r.Nonce == a.nonce {
		a.w.fail("L5: %s gives %d up (%s), but it is still its own", a.id, act.Fence, act.Reason)
	}
	if act.Reason == Expired && a.w.at < a.until-3 {
		a.w.fail("L5: %s gives %d up before its trust has passed", a.id, act.Fence)
	}
}

func (a *simAgent) arm() {
	a.timer++
	timer := a.timer
	if at := a.m.Deadline(); !at.IsZero() {
		w := a.w
		if !at.After(a.clock.local(w.at)) {
			w.fail("%s's deadline is not in the future: it would spin", a.id)
		}
		life := a.life
		w.after(max(0, a.clock.global(at)-w.at)+int64(w.rnd.IntN(500_000)), func() {
			if a.life == life && a.timer == timer {
				w.tell(a, 0, func(now time.Time) { a.m.Tick(now) })
			}
		})
	}
}

// handOut gives the application a message if it may, and none is in its hands.
func (a *simAgent) handOut() {
	w := a.w
	if a.fence == 0 || !a.open || a.until <= w.at || a.working || a.dead || a.pausedUntil > w.at {
		return
	}
	if a.fence < w.sink {
		if w.at < w.excused {
			return // the sink refuses it
		}
		w.fail("S1: %s delivers under %d after %d", a.id, a.fence, w.sink)
	}
	w.sink = a.fence
	if age := a.nanos() - a.stored; age > int64(a.cfg.trust())+10 {
		w.fail("S2: %s delivers %s after it sent the last write that was carried out", a.id, time.Duration(age))
	}
	a.working = true
	life := a.life
	w.after(int64(w.rnd.IntN(800))*1e6, func() {
		if a.life == life {
			a.working = false
			a.idle()
			w.after(1e6, func() {
				if a.life == life {
					a.handOut()
				}
			})
		}
	})
}

func (a *simAgent) idle() {
	if a.asked && !a.working {
		a.w.tell(a, 0, func(now time.Time) {
			if a.asked && !a.working {
				a.asked = false
				a.m.Idle(now)
			}
		})
	}
}
