package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// hand is a hand-over that was handled for a millisecond and acked.
func hand(agent, id string, seq, fence uint64, got time.Duration) Hand {
	return Hand{
		Queue: "q", Lane: "0", Agent: agent, App: "app", ID: id, Seq: seq, Fence: fence, Attempt: 1,
		Got: got, Began: got + ms/10, Ended: got + ms, Asked: got + ms, Result: "ack", Status: "ok",
	}
}

// sound is a record in which everything that may happen happens: a nack, a lost app, an ack without an answer, a takeover,
// a refused write, two lanes, a message that is left and a dead one.
func sound() (*History, Ending) {
	h := &History{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		h.Stored = append(h.Stored, Message{"q", id})
	}
	add := func(x Hand) { h.Hands = append(h.Hands, x) }
	add(hand("one", "a", 1, 10, 10*ms))
	nacked := hand("one", "b", 2, 10, 20*ms)
	nacked.Result = "nack"
	add(nacked)
	upper := hand("one", "d", 4, 10, 30*ms) // of a higher level: it may come while b backs off
	upper.Lane = "top"
	add(upper)
	add(hand("one", "b", 2, 10, 40*ms))
	late := hand("one", "c", 3, 10, 50*ms)
	late.Ended, late.Asked, late.Status = 200*ms, 200*ms, "lease_lost"
	add(late)
	h.Cuts = append(h.Cuts, Cut{"one", 90 * ms})
	crashed := hand("two", "c", 3, 20, 100*ms)
	crashed.Ended, crashed.Asked, crashed.Result, crashed.Status, crashed.Lost, crashed.LostAt = 0, 0, "", "", "connection", 103*ms
	add(crashed)
	add(hand("two", "c", 3, 20, 110*ms))
	unknown := hand("two", "e", 5, 20, 120*ms)
	unknown.Status = ""
	add(unknown)
	again := hand("one", "e", 5, 30, 130*ms)
	add(again)
	rejected := hand("one", "f", 6, 30, 140*ms)
	rejected.Result = "reject"
	add(rejected)
	h.Writes = []Write{{"q", "a", 10, true}, {"q", "c", 20, true}, {"q", "c", 10, false}, {"q", "e", 30, true}}
	return h, Ending{Left: []string{"g"}, Dead: []string{"f"}}
}

func TestASoundRecordPasses(t *testing.T) {
	h, e := sound()
	if found := h.Judge(e); len(found) > 0 {
		t.Errorf("found\n%s", strings.Join(found, "\n"))
	}
}

// Each check fails on a record that is wrong in its way, and no other does.
func TestControls(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(h *History, e *Ending)
		want  []string // the checks that must find something
	}{
		{"a hand-over without a fence", func(h *History, _ *Ending) { h.Hands[0].Fence = 0 }, []string{"fences"}},
		{"a fence that falls", func(h *History, _ *Ending) { h.Hands[8].Fence = 15 }, []string{"fences"}},
		{"two agents under one fence", func(h *History, _ *Ending) { h.Hands[8].Fence = 20 }, []string{"fences"}},
		{"two agents at the same time", func(h *History, _ *Ending) { h.Cuts = nil }, []string{"overlaps"}},
		{"one agent, two handlers", func(h *History, _ *Ending) { h.Hands[0].Ended = 25 * ms }, []string{"overlaps"}},
		{"a handler that never ends", func(h *History, _ *Ending) { h.Hands[5].LostAt = 0 }, []string{"overlaps"}},
		{"a long handler behind a short one", func(h *History, _ *Ending) {
			h.Hands[0].Ended = 35 * ms
			h.Hands[1].Ended = 21 * ms
		}, []string{"overlaps"}},
		{"first deliveries out of order", func(h *History, _ *Ending) { h.Hands[7].Seq, h.Hands[8].Seq = 2, 2 }, []string{"order"}},
		{"overtaken while it backs off", func(h *History, _ *Ending) { h.Hands[2].Lane = "0" }, []string{"overtaking", "order"}},
		{"overtaken while its app has it", func(h *History, _ *Ending) { h.Hands[0].Asked = 25 * ms }, []string{"overtaking"}},
		{"overtaken after an ack that may have been carried out", func(h *History, _ *Ending) {
			h.Hands[0].Status, h.Hands[0].Lost = "lease_lost", ""
		}, nil},
		{"refused and gone", func(h *History, e *Ending) { h.Hands[0].Status = "expired" }, []string{"loss", "overtaking"}},
		{"never came", func(h *History, e *Ending) { e.Left = nil }, []string{"loss"}},
		{"nacked and gone", func(h *History, _ *Ending) { h.Hands[9].Result = "nack" }, nil}, // it is a dead letter
		{"nacked, gone, and no dead letter", func(h *History, e *Ending) { h.Hands[9].Result, e.Dead = "nack", nil }, []string{"loss"}},
		{"acked and still there", func(h *History, e *Ending) { e.Left = append(e.Left, "a") }, []string{"loss"}},
		{"left and dead", func(h *History, e *Ending) { e.Left = append(e.Left, "f") }, []string{"loss"}},
		{"out of nowhere", func(h *History, _ *Ending) { h.Stored = h.Stored[1:] }, []string{"loss"}},
		{"acked twice", func(h *History, _ *Ending) { h.Hands[7].Status = "ok" }, []string{"loss", "duplicates"}},
		{"again without a reason", func(h *History, _ *Ending) { h.Hands[5].Lost = "" }, []string{"duplicates"}},
		{"a sink that accepts a lower fence", func(h *History, _ *Ending) { h.Writes[2].Accepted = true }, []string{"sink"}},
	} {
		h, e := sound()
		c.spoil(h, &e)
		var got []string
		for _, f := range h.Judge(e) {
			check, _, _ := strings.Cut(f, ": ")
			got = append(got, check)
		}
		slices.Sort(got)
		got = slices.Compact(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found by %v, want %v\n%s", c.name, got, c.want, strings.Join(h.Judge(e), "\n"))
		}
	}
}

func TestSilence(t *testing.T) {
	h := &History{Hands: []Hand{
		hand("one", "a", 1, 1, 10*ms), hand("one", "b", 2, 1, 20*ms), hand("two", "c", 3, 2, 50*ms), hand("two", "d", 4, 2, 60*ms),
	}}
	h.Hands[1].Ended = 30 * ms
	for _, c := range []struct{ from, to, longest, since time.Duration }{
		{10 * ms, 61 * ms, 20 * ms, 30 * ms}, // from b's end to c
		{0, 25 * ms, 10 * ms, 0},             // before the first
		{25 * ms, 45 * ms, 15 * ms, 30 * ms}, // the end cuts it
		{55 * ms, 90 * ms, 29 * ms, 61 * ms}, // after the last
		{100 * ms, 130 * ms, 30 * ms, 100 * ms},
	} {
		longest, since := h.Silence("q", c.from, c.to)
		if longest != c.longest || since != c.since {
			t.Errorf("from %v to %v: %v since %v, want %v since %v", c.from, c.to, longest, since, c.longest, c.since)
		}
	}
	if longest, _ := h.Silence("other", 0, 90*ms); longest != 90*ms {
		t.Errorf("a queue that nobody had anything of: %v, want all of it", longest)
	}
}

// The log and its sink, as an app uses them.
func TestLog(t *testing.T) {
	l := New()
	var entries []*Entry
	for i, fence := range []uint64{7, 8, 7} {
		id := fmt.Sprint(i)
		l.Stored("q", id)
		entries = append(entries, l.Got(Hand{Queue: "q", Lane: "0", Agent: fmt.Sprint(fence), ID: id, Seq: uint64(i), Fence: fence}))
		entries[i].Begin()
		if accepted := entries[i].Write(); accepted != (i < 2) {
			t.Errorf("write %d under fence %d: accepted %v", i, fence, accepted)
		}
		entries[i].End()
		entries[i].Asked("ack")
		entries[i].Answered("ok")
	}
	entries[2].Lost("late")
	l.Cut("7", l.Now())
	h := l.History()
	if len(h.Hands) != 3 || len(h.Stored) != 3 || len(h.Writes) != 3 || len(h.Cuts) != 1 {
		t.Fatalf("the record has %d hands, %d messages, %d writes, %d cuts", len(h.Hands), len(h.Stored), len(h.Writes), len(h.Cuts))
	}
	for i, x := range h.Hands {
		if !(0 < x.Got && x.Got <= x.Began && x.Began <= x.Ended && x.Ended <= x.Asked) || x.Status != "ok" {
			t.Errorf("hand %d: %+v", i, x)
		}
	}
	found := h.Judge(Ending{})
	if len(found) != 1 || !strings.HasPrefix(found[0], "fences: ") {
		t.Errorf("found %q, want the fence that fell", found)
	}
}

// What rebuilds of lanes explain passes in a queue that many share, and nothing more does.
func TestSharedDuplicates(t *testing.T) {
	first := func() Hand { x := hand("one", "a", 1, 0, 10*ms); x.Told = 12 * ms; return x }
	second := func(got time.Duration) Hand {
		x := hand("two", "a", 1, 0, got)
		x.Status, x.Told = "already_settled", got+2*ms
		return x
	}
	rebuilds := []Rebuild{{5 * ms, 40 * ms}}
	for _, c := range []struct {
		name  string
		h     History
		wrong bool
	}{
		{"nothing twice", History{Hands: []Hand{first()}}, false},
		{"in two hands, without a rebuild", History{Hands: []Hand{first(), second(11 * ms)}}, true},
		{"in two hands, by a rebuild", History{Hands: []Hand{first(), second(11 * ms)}, Rebuilds: rebuilds}, false},
		{"in three hands, by one rebuild", History{Hands: []Hand{first(), second(11 * ms), second(13 * ms)}, Rebuilds: rebuilds}, true},
		{"in three hands, by two", History{Hands: []Hand{first(), second(11 * ms), second(13 * ms)}, Rebuilds: append(rebuilds, Rebuild{6 * ms, 20 * ms})}, false},
		{"a rebuild that came later", History{Hands: []Hand{first(), second(11 * ms)}, Rebuilds: []Rebuild{{30 * ms, 40 * ms}}}, true},
		{"long after it was finished", History{Hands: []Hand{first(), second(12*ms + 2*late)}, Rebuilds: []Rebuild{{0, 5 * late}}}, true},
		{"finished twice, by a rebuild", History{Hands: []Hand{first(), func() Hand { x := second(11 * ms); x.Status = "ok"; return x }()}, Rebuilds: rebuilds}, true},
		{"finished twice, one ack broke in the outage", History{Hands: []Hand{
			func() Hand { x := first(); x.Told = x.Asked + 2*broken; return x }(), func() Hand { x := second(11 * ms); x.Status = "ok"; return x }(),
		}, Rebuilds: rebuilds}, false},
		{"an ack that was slow without an outage", History{Hands: []Hand{
			func() Hand { x := first(); x.Told = x.Asked + 2*broken; return x }(), func() Hand { x := second(11 * ms); x.Status = "ok"; return x }(),
		}}, true},
		{"after a nack", History{Hands: []Hand{func() Hand { x := first(); x.Result = "nack"; return x }(), second(30 * ms)}}, false},
		{"after its app was lost", History{Hands: []Hand{func() Hand {
			x := first()
			x.Result, x.Status, x.Lost, x.LostAt = "", "", "crashed", 15*ms
			return x
		}(), second(30 * ms)}}, false},
	} {
		c.h.Stored = []Message{{"q", "a"}}
		if found := c.h.JudgeShared(Ending{}); len(found) > 0 != c.wrong {
			t.Errorf("%s: found %q", c.name, found)
		}
	}
	h := History{Hands: []Hand{first(), second(11 * ms)}, Rebuilds: rebuilds}
	if r, touched := h.Repeated(), h.Touched(); r != 1 || touched != 2 {
		t.Errorf("%d repeated, %d touched", r, touched)
	}
}
