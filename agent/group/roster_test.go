package group

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
)

// rosterTape plays heartbeats of agent "b" at times counted from a start.
type rosterTape struct {
	r     roster
	start time.Time
	seq   uint64
}

func newRosterTape() *rosterTape {
	return &rosterTape{r: roster{staleAfter: 10 * time.Second, forgetAge: time.Hour}, start: time.Unix(1000, 0)}
}

func (p *rosterTape) at(d time.Duration) time.Time { return p.start.Add(d) }

func (p *rosterTape) beat(d time.Duration, edit func(*heartbeat)) bool {
	p.seq++
	h := heartbeat{Agent: "b", Boot: "1", Capsule: "c", IntervalMS: 2000, Seq: p.seq}
	if edit != nil {
		edit(&h)
	}
	value, _ := json.Marshal(h)
	return p.r.apply(bucket.Entry{Key: "hb.b.c", Value: value}, p.at(d))
}

func (p *rosterTape) live() bool { return len(livePeers(&p.r)) == 1 }

func TestRosterStaleness(t *testing.T) {
	p := newRosterTape()
	if !p.beat(0, nil) || !p.live() {
		t.Fatal("a new peer is live, and matters")
	}
	if p.beat(2*time.Second, nil) {
		t.Error("a heartbeat that says nothing new matters")
	}
	if next := p.r.next(); next != p.at(12*time.Second) {
		t.Errorf("suspect at %s", next.Sub(p.start))
	}
	if _, changed := p.r.judge(p.at(12*time.Second - 1)); changed || !p.live() {
		t.Error("stale too early")
	}
	if _, changed := p.r.judge(p.at(12 * time.Second)); !changed || p.live() {
		t.Error("not stale in time")
	}
	if _, changed := p.r.judge(p.at(13 * time.Second)); changed {
		t.Error("stale twice")
	}
	if !p.beat(20*time.Second, nil) || !p.live() {
		t.Error("a peer that writes again is live, and matters")
	}
	p.r.skip(6*time.Second, p.at(28*time.Second)) // from 22 to 28 nothing could be heard
	if _, changed := p.r.judge(p.at(36*time.Second - 1)); changed {
		t.Error("the silence was counted")
	}
	p.r.skip(time.Hour, p.at(36*time.Second))
	if _, changed := p.r.judge(p.at(46 * time.Second)); !changed {
		t.Error("a record has changed in the future")
	}
	p.beat(47*time.Second, nil)
	if !p.r.apply(bucket.Entry{Key: "hb.b.c", Deleted: true}, p.at(40*time.Second)) || p.live() {
		t.Error("a deleted record is a peer that has gone")
	}
}

func TestRosterForgets(t *testing.T) {
	p := newRosterTape()
	p.beat(0, nil)
	p.r.judge(p.at(time.Minute))
	if next := p.r.next(); next != p.at(time.Hour) {
		t.Errorf("forgettable at %s", next.Sub(p.start))
	}
	if forgotten, _ := p.r.judge(p.at(time.Hour - 1)); forgotten != nil {
		t.Errorf("forgot %v too early", forgotten)
	}
	if forgotten, _ := p.r.judge(p.at(time.Hour)); !slices.Equal(forgotten, []string{"hb.b.c"}) {
		t.Errorf("forgot %v", forgotten)
	}
}

func TestRosterSlowWriter(t *testing.T) {
	p := newRosterTape()
	p.beat(0, func(h *heartbeat) { h.IntervalMS = 20_000 })
	if _, changed := p.r.judge(p.at(40*time.Second - 1)); changed {
		t.Error("an agent with a longer interval is given two of them")
	}
	if _, changed := p.r.judge(p.at(40 * time.Second)); !changed {
		t.Error("not stale after two intervals")
	}
	for _, ms := range []int64{-1, 1 << 62} {
		p.beat(0, func(h *heartbeat) { h.IntervalMS = ms })
		if _, changed := p.r.judge(p.at(3 * time.Hour)); !changed {
			t.Errorf("an interval of %d ms makes a peer immortal", ms)
		}
	}
}

func TestRosterWhatMatters(t *testing.T) {
	for name, edit := range map[string]func(*heartbeat){
		"demand":      func(h *heartbeat) { h.Demand = true },
		"priority":    func(h *heartbeat) { h.ConsumerPriority = 3 },
		"queues":      func(h *heartbeat) { h.Queues = []string{"orders"} },
		"definitions": func(h *heartbeat) { h.Definitions = map[string]stamp{"orders": {1, "x"}} },
		"boot":        func(h *heartbeat) { h.Boot = "2" },
	} {
		p := newRosterTape()
		p.beat(0, nil)
		if !p.beat(time.Second, edit) {
			t.Errorf("%s does not matter", name)
		}
		if p.beat(2*time.Second, edit) {
			t.Errorf("%s matters although it is the same", name)
		}
	}
	p := newRosterTape()
	p.r.apply(bucket.Entry{Key: "hb.b.c", Value: []byte("garbage")}, p.start)
	if p.live() || p.r.carried("orders", &force{}) {
		t.Error("garbage is a peer")
	}
}
