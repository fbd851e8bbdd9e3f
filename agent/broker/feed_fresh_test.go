package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// A lane is doubted for a while after it was made, and again when its consumer's numbers begin anew; one whose stream has
// one copy never is.
func TestAYoungLaneIsDoubted(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	now := time.Now()
	var f fresh
	f.begin(now, true)
	for _, c := range []struct {
		number     uint64
		again      bool
		at         time.Time
		replicated func() bool
		want       bool
	}{
		{1, false, now, yes, true},
		{2, false, now.Add(freshSpan - time.Second), yes, true},
		{3, false, now.Add(freshSpan + time.Second), yes, false},
		{9, false, now.Add(freshSpan + time.Second), yes, false},
		{10, true, now.Add(freshSpan + time.Second), yes, true}, // it was given out before, and may be finished
		{11, false, now.Add(freshSpan + time.Second), yes, false},
		{12, true, now.Add(freshSpan + time.Second), no, false},
		{1, false, now.Add(2 * freshSpan), yes, true}, // somebody made it anew
		{2, false, now.Add(3*freshSpan - time.Second), yes, true},
		{3, false, now.Add(4 * freshSpan), yes, false},
		{1, false, now.Add(5 * freshSpan), no, false},
	} {
		if got := f.doubts(c.number, c.again, c.at, c.replicated); got != c.want {
			t.Errorf("message %d after %v: doubted %v, want %v", c.number, c.at.Sub(now), got, c.want)
		}
	}
	f = fresh{}
	f.begin(now, false)
	if f.doubts(1, false, now, no) || f.doubts(2, true, now, no) {
		t.Error("a lane of a stream with one copy is doubted")
	}
}

// Whatever order the leader answers in, what came from a lane goes on in the order in which it came, remarks included.
func TestAYoungLaneKeepsItsOrder(t *testing.T) {
	f := &Feed{}
	state := &laneState{}
	var order []string
	say := func(what string) func() { return func() { order = append(order, what) } }
	if state.fresh.behind(say("nothing to wait for")) {
		t.Fatal("a remark waits for nobody")
	}
	arrivals := make([]*arrival, 3)
	for i := range arrivals {
		arrivals[i] = state.fresh.wait()
	}
	if !state.fresh.behind(say("end")) {
		t.Fatal("a remark overtakes messages")
	}
	if !state.fresh.doubts(99, false, time.Now(), func() bool { return false }) {
		t.Error("a message overtakes those that wait")
	}
	for _, i := range []int{2, 0, 1} {
		f.turn(state, arrivals[i], say(fmt.Sprint(i)))
	}
	if got := strings.Join(order, " "); got != "0 1 2 end" {
		t.Errorf("went on as %q", got)
	}
	if len(state.fresh.line) > 0 || state.fresh.busy {
		t.Error("somebody still waits")
	}
}

// A page of a list counts the consumers that are missing in it, because their server does not answer.
func TestPagesCountWhatIsMissing(t *testing.T) {
	page := func(total, limit, here, missing int) *wire.ConsumerPage {
		p := &wire.ConsumerPage{Total: total, Limit: limit, Missing: make([]string, missing)}
		p.Consumers = slices.Grow(p.Consumers, here)[:here]
		return p
	}
	for _, c := range []struct {
		page   *wire.ConsumerPage
		offset int
		next   int
		more   bool
	}{
		{page(6, 256, 5, 1), 0, 256, false},
		{page(300, 256, 200, 56), 0, 256, true},
		{page(300, 256, 44, 0), 256, 512, false},
		{page(300, 256, 0, 256), 0, 256, true},
		{page(0, 256, 0, 0), 0, 256, false},
	} {
		if next, more := c.page.Next(c.offset); next != c.next || more != c.more {
			t.Errorf("behind %d of %d and %d missing at %d: %d %v, want %d %v", len(c.page.Consumers), c.page.Total, len(c.page.Missing), c.offset, next, more, c.next, c.more)
		}
	}
}
