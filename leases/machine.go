package leases

import (
	"strconv"
	"time"
)

// Jitter draws numbers in [0, n). A *rand.Rand of math/rand/v2 is one. Only waiting times come from it.
type Jitter interface {
	Int64N(n int64) int64
}

// Machine decides for one candidate about one lease. It is a value without goroutine, lock, clock, random numbers or I/O:
// its owner tells it what happened and when, by the process's monotonic clock, carries out [Machine.Actions], and calls
// [Machine.Tick] when [Machine.Deadline] has come. Events may be late; time must not go back.
//
// Every method that takes now is an event. After each of them the owner first takes over [Machine.Grant], and only then
// carries out the actions, so that nothing is handed out once others have been told that it is not.
type Machine struct {
	cfg    Config
	jitter Jitter

	wanted    bool
	connected bool
	priority  int
	peers     []peer

	view    view
	tenure  tenure
	writing write   // in flight; zero when none is
	unsure  []write // given up without an answer: each may have been carried out, or may be yet
	reading read    // in flight; zero when none is
	// resolve is the number that a read must exceed to tell what became of a write; 0 when nothing is in doubt. Until then
	// nothing is written.
	resolve uint64
	serial  uint64 // of requests: reads and writes

	reads, writes pace
	pollAt        time.Time
	releasing     string // handed over to this candidate, not written yet
	problem       error

	out  []Action
	next time.Time
}

// view is the newest record that is known.
type view struct {
	known bool
	seen  Seen
	since time.Time // when it was seen for the first time
	// tenureSince is when its tenure was.
	tenureSince time.Time
	news        uint64 // the serial then: what was read before is older
	// heldUntil is until when a holder that is not this run may trust the lease, at most; zero when there is none.
	heldUntil time.Time
	longest   time.Duration // of the TTLs that were seen
	spread    time.Duration // how much later than possible this candidate claims
	top       uint64        // the highest revision that was ever seen
	fallen    time.Time     // since when reads show less than that
	watched   uint64        // the highest revision that the watch has shown
	behind    time.Time     // since when the watch owes a revision
}

type tenure struct {
	fence   uint64 // 0: none
	nonce   string
	term    uint64
	until   time.Time
	renewAt time.Time
	// open is false after a disconnection until the record was seen again.
	open     bool
	yielding bool
	idle     bool
}

type write struct {
	request  uint64
	record   Record
	expected uint64
	sent     time.Time
}

type read struct {
	request uint64
	sent    time.Time
}

// New makes a machine that does not want the lease, and is connected. The configuration must be valid.
func New(cfg Config, jitter Jitter) *Machine {
	return &Machine{cfg: cfg.WithDefaults(), jitter: jitter, connected: true}
}

// Actions returns what is to be done, in order, and forgets it. The slice is valid until the next event.
func (m *Machine) Actions() []Action {
	out := m.out
	m.out = m.out[:0]
	return out
}

// Deadline returns when Tick is due; zero when nothing is.
func (m *Machine) Deadline() time.Time { return m.next }

// Grant returns what the candidate may do from now until the next event.
func (m *Machine) Grant() Grant {
	t := m.tenure
	return Grant{Fence: t.fence, Until: t.until, Open: t.fence != 0 && t.open && !t.yielding}
}

// Quiet says that nothing of this candidate is stored as far as it knows, and nothing is under way: after Unwant it can
// be forgotten.
func (m *Machine) Quiet() bool {
	return !m.wanted && m.tenure.fence == 0 && m.writing.request == 0 && m.resolve == 0 && !m.ours()
}

// ours says that the record names a tenure of this run that is over: nobody trusts it.
func (m *Machine) ours() bool {
	r := m.view.seen.Record
	return m.view.known && m.tenure.fence == 0 && r.Holder != "" && r.boot() == m.cfg.Boot
}

// act does everything that is due. It runs at the end of every event, and sets the next deadline.
func (m *Machine) act(now time.Time) {
	m.next = time.Time{}
	m.lapse(now)
	m.watchdog(now)
	if m.tenure.fence != 0 {
		m.yield(now)
	}
	if m.connected {
		m.fetch(now)
		switch {
		case m.writing.request != 0 || m.resolve != 0: // one write at a time, and none in the dark
		case m.tenure.fence != 0:
			m.renew(now)
		case m.ours():
			m.tidy(now)
		case m.wanted && m.view.known:
			m.stand(now)
		}
	}
	if m.tenure.fence != 0 {
		m.alarm(m.tenure.until)
	}
}

// lapse ends what has run out: trust, and patience with requests.
func (m *Machine) lapse(now time.Time) {
	if m.tenure.fence != 0 && !now.Before(m.tenure.until) {
		m.end(Expired)
	}
	if w := m.writing; w.request != 0 {
		if late := w.sent.Add(m.cfg.patience()); now.Before(late) {
			m.alarm(late)
		} else {
			m.doubt(now)
		}
	}
	if r := m.reading; r.request != 0 {
		if late := r.sent.Add(m.cfg.patience()); now.Before(late) {
			m.alarm(late)
		} else {
			m.readFailed(now)
		}
	}
}

// tidy deals with the record of a tenure of ours that is over.
func (m *Machine) tidy(now time.Time) {
	if m.wanted && m.releasing == "" && m.usable() {
		m.claim(now)
		return
	}
	r := m.view.seen.Record
	r.Holder, r.Former, r.Successor = "", m.cfg.ID, m.releasing
	m.write(now, r)
}

// end ends the tenure.
func (m *Machine) end(why Reason) {
	m.out = append(m.out, Action{Kind: End, Fence: m.tenure.fence, Reason: why})
	m.tenure = tenure{}
}

// begin begins a tenure with a claim that was carried out.
func (m *Machine) begin(now time.Time, w write, revision uint64) {
	m.tenure = tenure{fence: revision, nonce: w.record.Nonce, term: w.record.Term, open: m.connected}
	m.extend(w)
	m.problem = nil
	m.resetPeers(now)
	m.out = append(m.out, Action{Kind: Begin, Fence: revision})
}

// extend moves trust to what a write that was carried out gives, counted from when it was sent.
func (m *Machine) extend(w write) {
	t := &m.tenure
	if until := w.sent.Add(m.cfg.trust()); until.After(t.until) {
		t.until = until
	}
	early := time.Duration(m.jitter.Int64N(int64(m.cfg.renewal() / 10)))
	t.renewAt = w.sent.Add(m.cfg.renewal() - early)
}

// nonce returns a name for the next tenure that none had before.
func (m *Machine) nonce() string { return m.cfg.Boot + "/" + strconv.FormatUint(m.serial+1, 10) }

func (m *Machine) alarm(at time.Time) {
	if m.next.IsZero() || at.Before(m.next) {
		m.next = at
	}
}
