package leases

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStandbyClaims(t *testing.T) {
	released := Record{Nonce: "else/1", Former: "other", TTL: 10 * time.Second, Number: 3, Term: 4}
	for _, c := range []struct {
		name   string
		record Record
		change func(*Config)
		peers  []Peer
		at     int64 // when it claims; the record is seen at 1000
	}{
		{"released", released, nil, nil, 1000},
		{"of several equal ones", released, nil, []Peer{{"another", 0}}, 1000}, // + jitter
		{"released, a higher one lives", released, nil, []Peer{{"high", 1}}, 1100},
		{"released, only the former holder is higher", released, nil, []Peer{{"other", 1}}, 1000},
		{"for this one", with(released, func(r *Record) { r.Successor = "me" }), nil, []Peer{{"high", 1}}, 1000},
		{"for another", with(released, func(r *Record) { r.Successor = "high" }), nil, nil, 1100},
		{"silent", other(3), nil, nil, 11_000},
		{"silent, a higher one lives", other(3), nil, []Peer{{"high", 1}}, 11_100},
		{"silent, it was higher itself", other(3), nil, []Peer{{"other", 1}}, 11_000},
		{"silent, with another TTL", with(other(3), func(r *Record) { r.TTL = 15 * time.Second }), nil, nil, 16_000},
		{"silent, this one's own TTL does not matter", other(3), func(c *Config) { c.TTL = 2 * time.Second }, nil, 11_000},
		{"unreadable", Record{Holder: unreadable}, nil, nil, 11_000},
		{"known to have ended", other(3), func(c *Config) { c.Ended = []string{"gone", "else"} }, nil, 1000},
		{"of an earlier run", with(other(3), func(r *Record) { r.Holder = "me" }), nil, nil, 11_000},
		{"of this run", with(other(3), func(r *Record) { r.Holder, r.Nonce = "me", "boot/77" }), nil, nil, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.change)
			b.do(0, func(m *Machine, now time.Time) { m.Peers(now, 0, c.peers) }).want(0)
			b.shows(1000, 9, c.record)
			for at := int64(1000); ; at += 20 { // its polls are answered at once
				if _, ok := b.last[Write]; ok {
					if b.at < c.at || b.at > c.at+20 {
						t.Errorf("claims at %d, want %d", b.at, c.at)
					}
					return
				}
				if at > 30_000 {
					t.Fatal("never claims")
				}
				b.sleep(at)
				b.reads(at, 9, c.record)
			}
		})
	}
}

func with(r Record, change func(*Record)) Record {
	change(&r)
	return r
}

func TestLateClaimIsAdopted(t *testing.T) {
	b := newBench(t, nil).want(0).reads(2, 0, Record{}).expect("read, claim@0").failed(500, Unknown).expect("read")
	claim := b.last[Write].Record
	b.reads(510, 0, Record{}).expect("claim@0").failed(520, Conflict).expect("read")
	b.reads(530, 5, claim).expect("begin 5").trusted(2+6666, 5)

	// Too late to be of use, it is claimed anew.
	b = newBench(t, nil).want(0).reads(2, 0, Record{}).failed(500, Unknown).expect("read, claim@0, read")
	claim = b.last[Write].Record
	b.shows(7000, 5, claim)
	b.reads(7001, 5, claim)
	if got := strings.Join(b.story, ", "); !strings.HasSuffix(got, "claim@5") || strings.Contains(got, "begin") {
		t.Errorf("the machine did %q", got)
	}

	// Not wanted any more, it is released.
	b = newBench(t, nil).want(0).reads(2, 0, Record{}).failed(500, Unknown).do(510, (*Machine).Unwant).expect("read, claim@0, read")
	claim = b.last[Write].Record
	b.reads(520, 0, Record{}).expect("")
	if !b.Quiet() {
		t.Error("not quiet, though nothing is known to be stored")
	}
	b.shows(600, 5, claim).expect("release@5").written(610, 6).expect("")
	if !b.Quiet() {
		t.Error("not quiet after the release")
	}
}

func TestDeletionWaitsForTheLongestTTL(t *testing.T) {
	slow := with(other(1), func(r *Record) { r.TTL = 15 * time.Second })
	b := newBench(t, nil).want(0).shows(1, 5, slow)
	b.shows(1000, 6, other(2)).shows(2000, 7, Record{})
	b.story = nil
	for at := int64(2000); at <= 16_900; at += 100 {
		b.sleep(at)
		b.reads(at, 7, Record{})
	}
	if got := strings.Join(b.story, ", "); strings.Contains(got, "claim") {
		t.Errorf("the machine did %q", got)
	}
	b.sleep(17_000)
	if got := strings.Join(b.story, ", "); !strings.HasSuffix(got, "claim@7") {
		t.Errorf("the machine did %q", got)
	}
}

func TestDeletedUnderSomebodyElse(t *testing.T) {
	b := newBench(t, nil).want(0).reads(1, 5, other(1)).shows(2000, 6, other(2))
	b.shows(3000, 7, Record{})
	b.story = nil
	for at := int64(3000); at < 13_000; at += 100 { // the holder may not know yet
		b.sleep(at)
		b.reads(at, 7, Record{})
	}
	if got := strings.Join(b.story, ", "); strings.Contains(got, "claim") {
		t.Errorf("claimed before the holder can have noticed: %s", got)
	}
	b.story = nil
	b.sleep(13_000)
	if got := strings.Join(b.story, ", "); !strings.HasSuffix(got, "claim@7") {
		t.Errorf("the machine did %q", got)
	}
}

func TestUnusableRevisions(t *testing.T) {
	low := func(revision uint64, r Record) func(m *Machine, now time.Time) {
		return func(m *Machine, now time.Time) { m.Watched(now, Seen{revision, r}) }
	}
	b := newBench(t, nil).want(0).do(1, low(17, Record{Nonce: "else/1", TTL: time.Second})).expect("read")
	if !errors.Is(b.Status().Problem, ErrLowRevision) {
		t.Errorf("Problem = %v", b.Status().Problem)
	}

	// Nothing there: only the claim tells.
	b = newBench(t, nil).want(0).reads(1, 0, Record{}).expect("read, claim@0")
	w := b.last[Write].Request
	b.do(2, func(m *Machine, now time.Time) { m.Written(now, w, 1) }).expect("release@1").closed(false)
	w = b.last[Write].Request
	b.do(3, func(m *Machine, now time.Time) { m.Written(now, w, 2) }).expect("")
	if !errors.Is(b.Status().Problem, ErrLowRevision) {
		t.Errorf("Problem = %v", b.Status().Problem)
	}
	b.sleep(5000)
	if got := strings.Join(b.story, ", "); strings.Contains(got, "claim") {
		t.Errorf("the machine did %q", got)
	}
	// The bucket is made anew as it should be.
	b.story = nil
	b.reads(5000, 0, Record{})
	b.sleep(15_001)
	if got := strings.Join(b.story, ", "); !strings.HasSuffix(got, "claim@0") {
		t.Errorf("the machine did %q", got)
	}
}

func TestRevisionsFallBack(t *testing.T) {
	b := holding(t, nil)
	b.sleep(2002).failed(2003, BucketGone)
	id := b.last[Read].Request
	b.do(2004, func(m *Machine, now time.Time) { m.ReadFailed(now, id, BucketGone) })
	b.story = nil
	b.reads(2010, 0, Record{}).expect("claim@0")
	b.written(2011, 3).expect("release@3").closed(false) // below its own fence of 5
	if !errors.Is(b.Status().Problem, ErrFellBack) {
		t.Errorf("Problem = %v", b.Status().Problem)
	}

	// Somebody else's record: at first it looks like an old one.
	b = newBench(t, nil).want(0).reads(1, 50, other(1))
	b.story = nil
	for at := int64(100); at < 25_000; at += 50 {
		b.sleep(at)
		b.reads(at, 7, other(2))
	}
	if !errors.Is(b.Status().Problem, ErrFellBack) {
		t.Errorf("Problem = %v", b.Status().Problem)
	}
	if at := b.closed(false).last[Write].Expected; at != MinRevision+50 {
		t.Errorf("it tried to claim at %d, which is below what was seen", short(at))
	}
}

func TestSilentWatchIsReplaced(t *testing.T) {
	b := newBench(t, nil).want(0).shows(1, 5, other(1))
	id := b.last[Read].Request
	b.do(2, func(m *Machine, now time.Time) { m.ReadDone(now, id, seenAt(5, other(1))) })
	b.story = nil
	b.sleep(2060).expect("read").reads(2061, 6, other(2)) // overdue: it polls, and the watch has missed something
	b.sleep(3100)
	if got := strings.Join(b.story, ", "); !strings.Contains(got, "rewatch") {
		t.Errorf("the machine did %q", got)
	}
	b.shows(3200, 6, other(2))
	b.story = nil
	b.sleep(6000)
	if got := strings.Join(b.story, ", "); strings.Contains(got, "rewatch") {
		t.Errorf("the machine did %q although the watch has caught up", got)
	}
}
