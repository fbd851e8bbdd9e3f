package permit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// bench is a ledger on a table: a test answers each of its actions by hand.
type bench struct {
	t   *testing.T
	l   *Ledger
	now time.Time
}

// newBench returns a ledger that knows that nobody has anything.
func newBench(t *testing.T, limit int) *bench {
	b := &bench{t: t, now: time.Unix(1_000_000_000, 0)}
	b.l = New(Config{Holder: "me", Cap: limit, Wait: 10 * time.Second, Linger: time.Millisecond})
	b.wants("survey")
	b.l.Surveyed(nil, -1, true, b.now)
	b.wants("")
	return b
}

var kinds = map[Kind]string{Beat: "beat", Claim: "claim", Release: "release", List: "list", Survey: "survey", Confirm: "confirm", Reap: "reap"}

// wants checks what the ledger asks for.
func (b *bench) wants(want string) (actions []Action) {
	b.t.Helper()
	actions = b.l.Actions()
	var got []string
	for _, a := range actions {
		got = append(got, kinds[a.Kind])
	}
	if s := strings.Join(got, " "); s != want {
		b.t.Errorf("it asks for %q, want %q", s, want)
	}
	return actions
}

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d); b.l.Tick(b.now) }

// take has n permits granted.
func (b *bench) take(n int) []Permit {
	b.t.Helper()
	b.l.Want("k", n, b.now)
	for _, a := range b.l.Actions() {
		switch a.Kind {
		case Beat:
			b.l.Beaten(a.At, true, b.now)
		case Claim:
			b.l.Claimed(a.Key, a.Number, Stored, 100+uint64(a.Number), b.now)
		default:
			b.t.Errorf("it asks for a %s", kinds[a.Kind])
		}
	}
	answers := b.l.Answers()
	if len(answers) != 1 || len(answers[0].Permits) != n {
		b.t.Fatalf("the answer to %d is %+v", n, answers)
	}
	return answers[0].Permits
}

// What a claim whose outcome is unknown has stored is removed, again and again until it is known to be gone.
func TestAClaimWithAnUnknownOutcomeIsTakenBack(t *testing.T) {
	b := newBench(t, 1)
	b.l.Want("k", 1, b.now)
	for _, a := range b.wants("beat claim") {
		if a.Kind == Beat {
			b.l.Beaten(a.At, true, b.now)
		} else {
			b.l.Claimed("k", a.Number, Unknown, 0, b.now)
		}
	}
	if answers := b.l.Answers(); len(answers) != 1 || len(answers[0].Permits) != 0 || !answers[0].Full {
		t.Errorf("the answer is %+v", answers)
	}
	for _, gone := range []bool{false, true} {
		b.pass(doubtAfter)
		if actions := b.wants("release"); len(actions) > 0 && actions[0].Seq != 0 {
			t.Errorf("it releases record %d, which it cannot know of", actions[0].Seq)
		}
		b.l.Released("k", 0, gone, b.now)
	}
	if b.l.Held() != 0 {
		t.Errorf("it holds %d", b.l.Held())
	}
}

// A holder that has permits says that it is there for as long as that lasts, and can rely on them all the while.
func TestPermitsLastAsLongAsTheWork(t *testing.T) {
	b := newBench(t, 2)
	permits := b.take(2)
	beats := 0
	for range 400 {
		b.pass(100 * time.Millisecond)
		for _, a := range b.l.Actions() {
			if a.Kind != Beat {
				t.Fatalf("it asks for a %s", kinds[a.Kind])
			}
			beats++
			b.l.Beaten(a.At, true, b.now.Add(time.Millisecond))
		}
		if !b.l.Trusted(permits[0], b.now) {
			t.Fatalf("not trusted after %d beats", beats)
		}
	}
	if beats < 16 || beats > 20 {
		t.Errorf("%d beats in four waits, want one each quarter", beats)
	}
	for _, p := range permits {
		b.l.Free(p, b.now)
	}
	b.pass(time.Second)
	b.wants("release release")
	b.l.Released("k", 0, true, b.now)
	b.l.Released("k", 1, true, b.now)
	b.pass(time.Minute)
	b.wants("")
}

// Trust counts from when a beat was sent: its answer may come as late as it likes.
func TestTrustCountsFromTheSending(t *testing.T) {
	b := newBench(t, 1)
	p := b.take(1)[0]
	b.pass(2500 * time.Millisecond)
	sent := b.wants("beat")[0].At
	b.now = b.now.Add(4 * time.Second)
	b.l.Beaten(sent, true, b.now)
	if end := sent.Add(b.l.Wait * 3 / 4); !b.l.Trusted(p, end.Add(-time.Millisecond)) || b.l.Trusted(p, end) {
		t.Error("not trusted until three quarters of the wait after the beat was sent")
	}
	// Once it has ended, a later beat does not bring it back for what was claimed before.
	b.now = sent.Add(b.l.Wait)
	b.l.Tick(b.now)
	for _, a := range b.l.Actions() {
		if a.Kind == Beat {
			b.l.Beaten(a.At, true, b.now)
		}
	}
	if b.l.Trusted(p, b.now) {
		t.Error("trusted again, although others may have removed it")
	}
}

// Where there may be records that the cap does not allow, a key's records are counted before one is added: at the start, and
// after the cap was lowered.
func TestRecordsAboveTheCapCount(t *testing.T) {
	for _, what := range []string{"start", "lowered"} {
		b := &bench{t: t, now: time.Unix(1_000_000_000, 0)}
		b.l = New(Config{Holder: "me", Cap: 2, Wait: 10 * time.Second, Linger: time.Millisecond})
		b.wants("survey")
		if what == "lowered" {
			b = newBench(t, 5)
			b.l.SetCap(2)
			b.wants("survey")
		}
		b.l.Want("k", 2, b.now)
		b.wants("beat list")
		b.l.Beaten(b.now, true, b.now)
		b.l.Listed("k", []Taken{{4, "other"}}, true, b.now)
		records := []Taken{{4, "other"}}
		for range 10 { // until it has its answer
			for _, a := range b.l.Actions() {
				switch a.Kind {
				case Claim:
					b.l.Claimed("k", a.Number, Stored, 7, b.now)
					records = append(records, Taken{a.Number, "me"})
				case List:
					b.l.Listed("k", records, true, b.now)
				}
			}
		}
		if answers := b.l.Answers(); len(answers) != 1 || len(answers[0].Permits) != 1 || !answers[0].Full {
			t.Errorf("%s: the answer is %+v, want one permit beside the other holder's", what, answers)
		}
	}
}

// What others released while this holder was cut off is found out when it is back.
func TestAFullKeyIsTriedAgainAfterAnOutage(t *testing.T) {
	b := newBench(t, 1)
	b.l.Want("k", 1, b.now)
	for _, a := range b.wants("beat claim") {
		if a.Kind == Beat {
			b.l.Beaten(a.At, true, b.now)
		} else {
			b.l.Claimed("k", a.Number, Refused, 0, b.now)
		}
	}
	b.l.Actions() // it looks who has it
	b.l.Listed("k", []Taken{{0, "other"}}, true, b.now)
	b.l.Actions()
	if b.l.Answers(); b.l.Room("k") != 0 {
		t.Fatal("there is room although another has the permit")
	}
	b.l.Reconnected()
	b.wants("survey")
	if b.l.Room("k") != 1 {
		t.Error("it is still taken for full: the notice may have come while nobody could hear it")
	}
	if got := fmt.Sprint(b.l.Changed()); !strings.Contains(got, "k") {
		t.Errorf("changed: %s", got)
	}
}

// Only what a silent holder had when that was found out is removed: what it claims once it is awake again is its own.
func TestOnlyWhatTheSilentHadIsRemoved(t *testing.T) {
	b := newBench(t, 1)
	b.l.Heard("other", 50, b.now)
	b.pass(b.l.Wait)
	b.wants("confirm")
	b.l.Confirmed("other", 50, 80, true, b.now)
	if actions := b.wants("reap"); len(actions) > 0 && (actions[0].Seq != 80 || actions[0].Holder != "other") {
		t.Errorf("it removes %+v, want what was stored up to 80", actions[0])
	}
	// One that has said something meanwhile is left alone.
	b.l.Heard("third", 90, b.now)
	b.pass(b.l.Wait)
	b.wants("confirm")
	b.l.Confirmed("third", 95, 95, true, b.now)
	b.wants("")
}
