package leases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// still is a jitter of zero.
type still struct{}

func (still) Int64N(int64) int64 { return 0 }

// bench drives one machine by hand. Times are in milliseconds since its start; its TTL is 10 s.
type bench struct {
	*Machine
	t     *testing.T
	at    int64
	last  map[ActionKind]Action
	story []string // what the machine asked for since the last expect
}

func newBench(t *testing.T, change func(*Config)) *bench {
	cfg := Config{ID: "me", Boot: "boot", TTL: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	return &bench{Machine: New(cfg, still{}), t: t, last: map[ActionKind]Action{}}
}

func (b *bench) now() time.Time { return clockTime(1e15+b.at*1e6, 0) }

// do lets an event happen at a moment.
func (b *bench) do(at int64, event func(m *Machine, now time.Time)) *bench {
	b.t.Helper()
	if at < b.at {
		b.t.Fatalf("time goes back to %d", at)
	}
	b.at = at
	event(b.Machine, b.now())
	for _, a := range b.Actions() {
		b.last[a.Kind] = a
		switch a.Kind {
		case Read:
			b.story = append(b.story, "read")
		case Write:
			what := "renew"
			if a.Record.Holder == "" {
				what = "release"
			} else if a.Record.Fence == 0 {
				what = "claim"
			}
			b.story = append(b.story, fmt.Sprintf("%s@%d", what, short(a.Expected)))
		case Rewatch:
			b.story = append(b.story, "rewatch")
		case Begin:
			b.story = append(b.story, fmt.Sprintf("begin %d", short(a.Fence)))
		case End:
			b.story = append(b.story, "end "+a.Reason.String())
		case HandOver:
			b.story = append(b.story, "hand over?")
		case Keep:
			b.story = append(b.story, "keep")
		}
	}
	return b
}

func short(revision uint64) uint64 {
	if revision > MinRevision {
		return revision - MinRevision
	}
	return revision
}

// expect compares what was asked for since the last time.
func (b *bench) expect(want string) *bench {
	b.t.Helper()
	if got := strings.Join(b.story, ", "); got != want {
		b.t.Fatalf("at %d: the machine did %q, want %q", b.at, got, want)
	}
	b.story = nil
	return b
}

func (b *bench) tick(at int64) *bench {
	b.t.Helper()
	return b.do(at, (*Machine).Tick)
}

// sleep ticks at every deadline up to a moment.
func (b *bench) sleep(until int64) *bench {
	b.t.Helper()
	for {
		at := b.Deadline()
		if at.IsZero() || at.After(clockTime(1e15+until*1e6, 0)) {
			return b.tick(until)
		}
		ms := at.Sub(clockTime(1e15, 0)).Milliseconds()
		if ms*1e6 < at.Sub(clockTime(1e15, 0)).Nanoseconds() {
			ms++
		}
		b.tick(ms)
	}
}

func (b *bench) want(at int64) *bench { b.t.Helper(); return b.do(at, (*Machine).Want) }

// written, conflict and so on answer the last write.
func (b *bench) written(at int64, revision uint64) *bench {
	b.t.Helper()
	w := b.last[Write]
	b.do(at, func(m *Machine, now time.Time) { m.Written(now, w.Request, MinRevision+revision) })
	return b.shows(at, revision, w.Record) // the watch comes later
}

func (b *bench) failed(at int64, why Outcome) *bench {
	b.t.Helper()
	w := b.last[Write]
	return b.do(at, func(m *Machine, now time.Time) { m.NotWritten(now, w.Request, why) })
}

// reads answers the last read.
func (b *bench) reads(at int64, revision uint64, r Record) *bench {
	b.t.Helper()
	id := b.last[Read].Request
	return b.do(at, func(m *Machine, now time.Time) { m.ReadDone(now, id, seenAt(revision, r)) })
}

func (b *bench) shows(at int64, revision uint64, r Record) *bench {
	b.t.Helper()
	return b.do(at, func(m *Machine, now time.Time) { m.Watched(now, seenAt(revision, r)) })
}

func seenAt(revision uint64, r Record) Seen {
	if revision != 0 {
		revision += MinRevision
	}
	return Seen{revision, r}
}

// other is the record of somebody else.
func other(number uint64) Record {
	return Record{Holder: "other", Nonce: "else/1", Fence: MinRevision + 1, Number: number, TTL: 10 * time.Second, Term: 1}
}

// holding is a machine that has held the lease since 10, at revision 5; its claim was sent at 2.
func holding(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	b := newBench(t, change).want(0).expect("read").reads(2, 0, Record{}).expect("claim@0").written(10, 5).expect("begin 5")
	b.trusted(6668, 5)
	return b
}

// trusted checks when trust ends, in milliseconds, rounded down, and the fence.
func (b *bench) trusted(until int64, fence uint64) *bench {
	b.t.Helper()
	g := b.Grant()
	if got := g.Until.Sub(clockTime(1e15, 0)).Milliseconds(); got != until || short(g.Fence) != fence || !g.Trusted(b.now()) {
		b.t.Fatalf("at %d: trusts %d until %d (open: %v), want %d until %d", b.at, short(g.Fence), got, g.Open, fence, until)
	}
	return b
}

func (b *bench) closed(held bool) *bench {
	b.t.Helper()
	if g := b.Grant(); g.Trusted(b.now()) || g.Held(b.now()) != held {
		b.t.Fatalf("at %d: trusted %v, held %v; want no trust, held %v", b.at, g.Trusted(b.now()), g.Held(b.now()), held)
	}
	return b
}

func TestTrustCountsFromSending(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).expect("renew@5").written(2900, 6).expect("").trusted(2002+6666, 5)
	// A success that comes after trust has passed is worth nothing.
	b.sleep(4002).expect("renew@6").tick(8667).trusted(2002+6666, 5)
	b.tick(8669).closed(false)
	if got := strings.Join(b.story, ", "); !strings.HasSuffix(got, "end expired") {
		t.Errorf("the machine did %q", got)
	}
	w := b.last[Write].Request
	b.story = nil
	b.do(8700, func(m *Machine, now time.Time) { m.Written(now, w, MinRevision+7) }).closed(false)
	if got := strings.Join(b.story, ", "); strings.Contains(got, "begin") {
		t.Errorf("the machine did %q", got)
	}
}

func TestUnknownRenewal(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).expect("renew@5").failed(2100, Unknown).expect("read")
	mine := b.last[Write].Record
	b.trusted(6668, 5)
	// It was carried out: trust counts from when it was sent.
	b.reads(2200, 6, mine).expect("").trusted(8668, 5).shows(2210, 6, mine)

	// It was not: the next one is sent at once, at the same revision.
	b.sleep(4002).expect("renew@6").failed(4100, Conflict).expect("read")
	first := b.last[Write]
	b.reads(4110, 6, mine).expect("renew@6").trusted(8668, 5)
	// Then the first one arrives after all, and the second one cannot any more.
	b.failed(4120, Conflict).expect("read").reads(4130, 7, first.Record).expect("").trusted(4002+6666, 5)
	// Its answer, late and twice, changes nothing.
	for range 2 {
		b.do(4140, func(m *Machine, now time.Time) { m.Written(now, first.Request, MinRevision+7) }).expect("").trusted(10668, 5)
	}
}

func TestNoAnswerIsUnknown(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).expect("renew@5").tick(3001).expect("").tick(3002).expect("read").tick(4001).expect("").tick(4002).expect("read")
	// A read that was given up is not listened to any more; the last one is.
	b.reads(4100, 5, b.last[Write].Record).trusted(6668, 5)
}

func TestRefusedRenewal(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).expect("renew@5").failed(2003, Refused).expect("read")
	b.reads(2004, 5, Record{Holder: "me", Nonce: "boot/2", TTL: 10 * time.Second, Number: 2, Term: 1}).expect("renew@5").trusted(6668, 5)
	b.written(2010, 6).trusted(2004+6666, 5)
}

func TestStaleReadIsRepeated(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).written(2003, 9).sleep(4002).failed(4003, Unknown)
	b.story = nil
	b.reads(4010, 5, Record{Holder: "me", Nonce: "boot/2", TTL: 10 * time.Second, Number: 2, Term: 1}).expect("").trusted(2002+6666, 5)
	b.sleep(4200).expect("read") // after a moment
}

func TestReplaced(t *testing.T) {
	for name, see := range map[string]func(b *bench) *bench{
		"watch": func(b *bench) *bench { return b.shows(1000, 9, other(7)) },
		"read": func(b *bench) *bench {
			return b.sleep(2002).failed(2003, Conflict).expect("renew@5, read").reads(2004, 9, other(7))
		},
		"released by somebody": func(b *bench) *bench {
			return b.shows(1000, 9, Record{Nonce: "boot/2", Former: "me", TTL: 10 * time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := see(holding(t, nil)).closed(false)
			if !strings.HasPrefix(strings.Join(b.story, ", "), "end replaced") {
				t.Errorf("the machine did %q", b.story)
			}
		})
	}
	// What is older than what is known replaces nobody.
	holding(t, nil).shows(1000, 4, other(7)).trusted(6668, 5).expect("")
}

func TestVanished(t *testing.T) {
	holding(t, nil).shows(1000, 9, Record{}).expect("end vanished, claim@9").closed(false).written(1010, 10).expect("begin 10")

	b := holding(t, nil)
	b.sleep(2002).failed(2003, BucketGone).closed(true).expect("renew@5, read")
	id := b.last[Read].Request
	b.do(2004, func(m *Machine, now time.Time) { m.ReadFailed(now, id, BucketGone) }).closed(false).expect("end vanished, read")
	if !errors.Is(b.Status().Problem, ErrGone) {
		t.Errorf("Problem = %v", b.Status().Problem)
	}
	b.reads(3000, 0, Record{}).expect("claim@0").written(3001, 100).expect("begin 100") // it was its own: no need to wait
	if b.Status().Problem != nil {
		t.Errorf("Problem = %v", b.Status().Problem)
	}

	// News of a deletion may be old: nothing is handed out until the record was seen.
	b = holding(t, nil).do(1000, (*Machine).Gone).closed(true).expect("read")
	b.reads(1001, 5, Record{Holder: "me", Nonce: "boot/2", TTL: 10 * time.Second, Number: 2, Term: 1}).trusted(6668, 5)
}

func TestOldAnswers(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).failed(2003, Unknown).expect("renew@5, read")
	renewal, old := b.last[Write].Record, b.last[Read].Request
	gone := func(m *Machine, now time.Time) { m.ReadFailed(now, old, BucketGone) }

	// "There is no bucket" was asked before the renewal was seen.
	b.shows(2010, 6, renewal).do(2011, gone).trusted(8668, 5)
	if got := strings.Join(b.story, ", "); strings.Contains(got, "end") {
		t.Errorf("the machine did %q", got)
	}

	// "It is yours" was asked before the bucket was said to be deleted.
	b = holding(t, nil)
	b.sleep(2002).failed(2003, Unknown).expect("renew@5, read")
	old = b.last[Read].Request
	mine := Record{Holder: "me", Nonce: "boot/2", TTL: 10 * time.Second, Number: 2, Term: 1}
	b.do(2010, (*Machine).Gone).closed(true).expect("read")
	b.do(2011, func(m *Machine, now time.Time) { m.ReadDone(now, old, seenAt(5, mine)) }).closed(true)
	b.reads(2012, 5, mine).trusted(6668, 5)
}

func TestRelease(t *testing.T) {
	b := holding(t, nil).do(1000, (*Machine).Unwant).expect("end released, release@5").closed(false)
	if r := b.last[Write].Record; r.Holder != "" || r.Former != "me" || r.Nonce == "" || r.Successor != "" {
		t.Errorf("the release is %+v", r)
	}
	if b.Quiet() {
		t.Error("quiet before the release is confirmed")
	}
	b.written(1010, 6).expect("")
	if !b.Quiet() {
		t.Error("not quiet after the release")
	}

	// A renewal that was under way lands first: the release follows it.
	b = holding(t, nil).sleep(2002).expect("renew@5")
	renewal := b.last[Write].Record
	b.do(2003, (*Machine).Unwant).expect("end released").closed(false)
	b.failed(2010, Unknown).expect("read").reads(2020, 5, with(renewal, func(r *Record) { r.Number, r.Fence = 2, 0 })).expect("release@5")
	b.failed(2030, Conflict).expect("read").reads(2040, 6, renewal)
	b.sleep(2200).expect("release@6").written(2210, 7).expect("")
	if !b.Quiet() {
		t.Error("not quiet after the release")
	}
}

func TestHandOver(t *testing.T) {
	high := func(m *Machine, now time.Time) { m.Peers(now, 0, []Peer{{"higher", 7}, {"high", 5}, {"low", -1}}) }
	b := holding(t, nil).do(100, high).expect("")
	// One that goes away before it has stayed does not count, however often it comes.
	b.do(5000, func(m *Machine, now time.Time) { m.Peers(now, 0, nil) }).do(5001, high)
	renewed := func(at int64, revision uint64) { b.sleep(at).written(at+1, revision); b.story = nil }
	renewed(5002, 6)
	renewed(7100, 7)
	renewed(9200, 8)
	b.tick(10_000).expect("").tick(10_001).expect("hand over?").closed(true)
	// It may take long until nothing is in flight: the lease is kept up.
	renewed(11_300, 9)
	b.closed(true)
	b.do(11_400, (*Machine).Idle).expect("end handed over, release@9").closed(false)
	if r := b.last[Write].Record; r.Successor != "higher" {
		t.Errorf("the successor is %q", r.Successor)
	}
	b.written(11_410, 10).expect("")
	// The successor does not claim: not for long.
	b.sleep(11_511)
	if got := strings.Join(b.story, ", "); got != "claim@10" {
		t.Errorf("the machine did %q", got)
	}
}

func TestHandOverIsTakenBack(t *testing.T) {
	b := holding(t, func(c *Config) { c.Stay = time.Second })
	b.do(100, func(m *Machine, now time.Time) { m.Peers(now, 0, []Peer{{"high", 5}}) })
	b.tick(1100).expect("hand over?").closed(true)
	b.do(1200, func(m *Machine, now time.Time) { m.Peers(now, 0, []Peer{{"high", 0}}) }).expect("keep").trusted(6668, 5)
	b.do(1300, (*Machine).Idle).expect("").trusted(6668, 5) // an answer to a question of the past
}

func TestHandOverWaitsForTheConnection(t *testing.T) {
	b := holding(t, func(c *Config) { c.Stay = time.Second })
	b.do(100, func(m *Machine, now time.Time) { m.Peers(now, 0, []Peer{{"high", 5}}) })
	b.tick(1100).expect("hand over?").do(1200, (*Machine).Disconnected).do(1300, (*Machine).Idle).expect("").closed(true)
	b.do(1400, (*Machine).Connected)
	if got := strings.Join(b.story, ", "); !strings.HasPrefix(got, "end handed over") {
		t.Errorf("the machine did %q", got)
	}
}

func TestConnection(t *testing.T) {
	b := holding(t, nil).do(1000, (*Machine).Disconnected).closed(true).expect("")
	b.sleep(1500).expect("").do(1600, (*Machine).Connected).closed(true).expect("read")
	record := Record{Holder: "me", Nonce: "boot/2", TTL: 10 * time.Second, Number: 2, Term: 1}
	b.reads(1610, 5, record).trusted(6668, 5).expect("")

	b.sleep(2002).expect("renew@5").do(2003, (*Machine).Disconnected).closed(true).sleep(6667).closed(true).expect("")
	b.tick(6669).expect("end expired").closed(false)
	b.do(9000, (*Machine).Connected).expect("read").reads(9001, 6, b.last[Write].Record).expect("claim@6")
}
