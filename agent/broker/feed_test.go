package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

func TestAsk(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	if answer := a.ask(lane, 3); !answer.Short || len(answer.Messages) != 0 || answer.Err != nil || answer.Lane != lane {
		t.Errorf("an empty lane answered %+v", answer)
	}
	for i := range 5 {
		r.publish(0, "a", fmt.Sprint(i))
	}
	r.publish(0, "b", "another tenant's")
	r.publish(1, "a", "another level's")
	r.caughtUp(lane, 5)
	if answer := a.ask(lane, 3); answer.Short || payloads(answer.Messages) != "0 1 2 " || answer.Pending != 2 {
		t.Errorf("3 of 5: %q, short %t, pending %d, %v", payloads(answer.Messages), answer.Short, answer.Pending, answer.Err)
	}
	if answer := a.ask(lane, 3); !answer.Short || payloads(answer.Messages) != "3 4 " || answer.Pending != 0 {
		t.Errorf("3 of 2: %q, short %t, pending %d, %v", payloads(answer.Messages), answer.Short, answer.Pending, answer.Err)
	}
	if answer := a.ask(lane, 1); !answer.Short || len(answer.Messages) != 0 || answer.Err != nil {
		t.Errorf("all in hand: %+v", answer)
	}
	if pulls, empty, made := r.metrics.LanePulls.Load("orders"), r.metrics.EmptyPulls.Load("orders"), r.metrics.LanesMade.Load(); pulls != 4 || empty != 2 || made != 1 {
		t.Errorf("counted %d pulls, %d empty, %d lanes made; want 4, 2, 1", pulls, empty, made)
	}
}

// Many lanes are asked at once, each gets its own answer.
func TestAskManyLanes(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	const lanes = 100
	for i := range lanes {
		r.publish(0, fmt.Sprint("k", i), fmt.Sprint("k", i))
	}
	for i := range lanes {
		a.Ask(a.at(0, fmt.Sprint("k", i)), 2, 0)
	}
	seen := map[string]bool{}
	for range lanes {
		answer := wait(t, a.answers, "an answer")
		if len(answer.Messages) != 1 || string(answer.Messages[0].Data) != answer.Lane.Key || seen[answer.Lane.Key] {
			t.Errorf("%s answered %q, %v", answer.Lane.Name(), payloads(answer.Messages), answer.Err)
		}
		seen[answer.Lane.Key] = true
	}
	select {
	case extra := <-a.answers:
		t.Errorf("%s answered twice: %+v", extra.Lane.Name(), extra)
	default:
	}
}

// Two agents share a lane: each message goes to one of them.
func TestAskShared(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.asker(), r.another().asker()
	for i := range 20 {
		r.publish(0, "a", fmt.Sprint(i))
	}
	seen := map[uint64]bool{}
	for range 5 {
		for _, m := range append(a.take(a.at(0, "a"), 2), b.take(b.at(0, "a"), 2)...) {
			if seen[m.Seq] {
				t.Errorf("%s was handed out twice", m.Data)
			}
			seen[m.Seq] = true
		}
	}
}

// Without fair share the lane of the default level reads messages with and without a priority in the order of their
// arrival. With it they are two lanes of one level, and sequences tell which message is first.
func TestDefaultLevelOrder(t *testing.T) {
	for name, change := range map[string]func(*config.Queue){"fair": nil, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			var with, without, all string
			for i := range 40 {
				level := []int{1, -1, -1, 1, 1}[i%5]
				r.publish(level, "a", fmt.Sprint(i))
				word := fmt.Sprint(i, " ")
				all += word
				if level < 0 {
					without += word
				} else {
					with += word
				}
			}
			a := r.asker()
			lanes := []struct {
				lane *Lane
				want string
			}{{a.at(1, "a"), with}, {a.unprioritised("a"), without}}
			if !r.q.FairShare.Enabled {
				lanes = lanes[:1]
				lanes[0].want = all
			}
			for _, l := range lanes {
				got := a.take(l.lane, strings.Count(l.want, " "))
				if payloads(got) != l.want {
					t.Errorf("%s gave %s, want %s", l.lane.Name(), payloads(got), l.want)
				}
				for _, m := range got {
					if m.Level != 1 || m.Key != "a" {
						t.Errorf("%s came as level %d of %q", m.Data, m.Level, m.Key)
					}
				}
			}
		})
	}
}

// What is at the heads of two lanes says which one is next. Of a stream with replicas its leader is asked, since a replica that is
// behind shows what is finished.
func TestHeads(t *testing.T) {
	for replicas, direct := range map[int]int{1: 6, 3: 0} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			r := newRig(t, nil)
			r.Definition = func(string) (config.Queue, bool) {
				q := r.q
				q.Storage.Replicas = replicas
				return q, true
			}
			heard, err := r.wire.NC.SubscribeSync("$JS.API.DIRECT.GET.FL_Q_orders")
			if err != nil {
				t.Fatal(err)
			}
			heads(t, r)
			if n, _, err := heard.Pending(); err != nil || n != direct {
				t.Errorf("any replica was asked %d times, %v; want %d", n, err, direct)
			}
		})
	}
}

func heads(t *testing.T, r *rig) {
	t.Helper()
	var seqs []uint64
	for _, level := range []int{1, -1, -1, 1} {
		seqs = append(seqs, r.publish(level, "a", "x").Seq)
	}
	a := r.asker()
	with, without := a.at(1, "a"), a.unprioritised("a")
	for _, tt := range []struct {
		lane       *Lane
		from, want uint64
	}{
		{with, 1, seqs[0]}, {without, 1, seqs[1]}, {with, seqs[0] + 1, seqs[3]}, {without, seqs[1] + 1, seqs[2]},
		{without, seqs[2] + 1, NoHead}, {a.at(0, "a"), 1, NoHead},
	} {
		found := make(chan uint64, 1)
		a.Head(tt.lane, tt.from, func(seq uint64) { found <- seq })
		if got := wait(t, found, "a head"); got != tt.want {
			t.Errorf("the head of %s from %d on is %d, want %d", tt.lane.Name(), tt.from, got, tt.want)
		}
	}
	if got := payloads(a.take(without, 2)); got != "x x " {
		t.Errorf("looking took something: the lane gave %q", got)
	}
}

// Switching levels on leaves a backlog where it belongs: at the default level.
func TestLevelsSwitchedOn(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Levels, q.DefaultPriority = 1, 0 })
	for i := range 10 {
		r.publish(-1, "a", fmt.Sprint("old", i))
	}
	r.define(definition(nil))
	r.publish(0, "a", "new")
	a := r.asker()
	if got := payloads(a.take(a.at(0, "a"), 1)); got != "new " {
		t.Errorf("the top level gave %s", got)
	}
	if answer := a.ask(a.at(0, "a"), 1); len(answer.Messages) != 0 {
		t.Errorf("the top level also gave %s", payloads(answer.Messages))
	}
	if got := a.take(a.unprioritised("a"), 10); got[0].Level != 1 || string(got[0].Data) != "old0" {
		t.Errorf("the default level gave %s", payloads(got))
	}
}

// Messages of a level that is gone, or never was, are served as the lowest one, and counted once each.
func TestObsoleteLevels(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Levels, q.DefaultPriority = 5, 2 })
	r.publish(4, "a", "old lowest")
	r.raw("p99.a", "never was")
	r.define(definition(nil))
	s, err := r.Sweep(within(t), r.layout())
	if err != nil || len(s.Lanes) != 2 {
		t.Fatal(s, err)
	}
	a := r.asker()
	for _, found := range s.Lanes {
		m := a.take(a.Lane(r.layout(), found.Address), 1)[0]
		if m.Level != 2 || m.Key != "a" {
			t.Errorf("%s came as level %d of %q", m.Data, m.Level, m.Key)
		}
		r.giveBack(m, Return{})
		a.take(a.Lane(r.layout(), found.Address), 1)
	}
	if n := r.metrics.UnknownLevels.Load(); n != 2 {
		t.Errorf("counted %d messages of unknown levels", n)
	}
}

// A lane whose consumer was deleted underneath is made again while it is asked, and what it had handed out and not
// finished comes again, but not to the agent that is running it.
func TestLaneLost(t *testing.T) {
	r := newRig(t, nil)
	running := map[uint64]*Message{}
	r.Live = func(m *Message) bool {
		_, ok := running[m.Seq]
		if ok {
			running[m.Seq] = m
		}
		return ok
	}
	a := r.asker()
	lane := a.at(0, "a")
	r.publish(0, "a", "1")
	r.publish(0, "a", "2")
	first := a.take(lane, 1)[0]
	running[first.Seq] = first
	if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
		t.Fatal(err)
	}
	if answer := a.ask(lane, 2); answer.Err != nil || payloads(answer.Messages) != "2 " || answer.Held != 1 {
		t.Errorf("the lost lane answered %q, held %d, %v", payloads(answer.Messages), answer.Held, answer.Err)
	}
	if lost, refreshed := r.metrics.LanesLost.Load(), r.metrics.Refreshed.Load(); lost != 1 || refreshed != 1 {
		t.Errorf("counted %d lanes lost, %d messages refreshed", lost, refreshed)
	}
	// The refreshed handle is good: a return through it brings the message back.
	m := running[first.Seq]
	delete(running, first.Seq)
	r.giveBack(m, Return{})
	if again := a.take(lane, 1)[0]; again.Seq != first.Seq {
		t.Errorf("%s came", again.Data)
	}
}

func TestStreamMissing(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	a.ask(lane, 1)
	if err := r.wire.JS.DeleteStream(within(t), lane.stream); err != nil {
		t.Fatal(err)
	}
	if answer := a.ask(lane, 1); !errors.Is(answer.Err, ErrStreamMissing) {
		t.Errorf("answered %+v", answer)
	}
	if _, err := r.Sweep(within(t), r.layout()); !errors.Is(err, ErrStreamMissing) {
		t.Errorf("the sweep: %v", err)
	}
	r.define(r.q)
	r.publish(0, "a", "new")
	if got := payloads(a.take(lane, 1)); got != "new " {
		t.Errorf("after it was made again: %s", got)
	}
}

// While the server is away every question gets exactly one answer, and afterwards lanes work again by themselves.
func TestAskThroughAnOutage(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil)
	a := r.asker()
	for i := range 8 {
		r.publish(0, fmt.Sprint("k", i), "x")
	}
	asked := 0
	outcome := map[string]int{}
	ask := func(n int) {
		for i := range n {
			a.Ask(a.at(0, fmt.Sprint("k", i)), 1, 0)
			asked++
		}
		for range n {
			answer := wait(t, a.answers, "an answer")
			switch {
			case answer.Err != nil:
				outcome["error"]++
			case len(answer.Messages) > 0:
				outcome["messages"]++
			default:
				outcome["empty"]++
			}
		}
	}
	ask(4)
	for i := range 8 { // questions that the server will never answer
		a.Ask(a.at(0, fmt.Sprint("k", i)), 1, 0)
		asked++
	}
	s.stop()
	for range 8 {
		wait(t, a.answers, "an answer to a question that was open when the server went")
	}
	ask(8)
	if outcome["error"] != 8 {
		t.Errorf("without a server: %v", outcome)
	}
	s.start()
	r.reconnected()
	// What was handed out before the outage stays so: a question may have got its message just before.
	before := outcome["messages"]
	for i := range 8 {
		r.publish(0, fmt.Sprint("k", i), "y")
	}
	until(t, "the agent's lanes give messages again", func() bool { ask(8); return outcome["messages"] >= before+8 })
	select {
	case extra := <-a.answers:
		t.Errorf("one answer too many: %+v", extra)
	default:
	}
}

// A message that comes for a question that was given up is reported, not dropped.
func TestStray(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	a.ask(lane, 1) // the lane exists
	r.publish(0, "a", "late")
	// The question is put in the feed's name and then forgotten, as if it had been given up.
	if err := r.wire.NC.PublishRequest(lane.next, a.prefix+"zzzz", []byte(`{"batch":1,"expires":10000000000}`)); err != nil {
		t.Fatal(err)
	}
	m := wait(t, a.strays, "the late message")
	if string(m.Data) != "late" || m.Key != "a" || r.finished(m) != Finished {
		t.Errorf("%+v", m)
	}
}

// The same when the question is given up in the very moment in which its message arrives.
func TestStrayInTheMoment(t *testing.T) {
	r := newRig(t, nil)
	var a *asker
	r.Live = func(*Message) bool { // asked while the message is being received
		a.connection(false)
		return false
	}
	a = r.asker()
	r.publish(0, "a", "late")
	if answer := a.ask(a.at(0, "a"), 1); !errors.Is(answer.Err, ErrUnavailable) || len(answer.Messages) != 0 {
		t.Errorf("answered %+v", answer)
	}
	if m := wait(t, a.strays, "the late message"); string(m.Data) != "late" {
		t.Errorf("%+v", m)
	}
}

func TestFeedClosed(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	a.Close()
	if answer := a.ask(a.at(0, "a"), 1); !errors.Is(answer.Err, ErrClosed) {
		t.Errorf("answered %+v", answer)
	}
	a.Close()
}

// A thousand messages that are backing off do not silence their lane.
func TestBackingOffDoesNotSilence(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	const n = 1100
	for range n {
		r.raw("p0.a", "later")
	}
	for got := 0; got < n; {
		answer := a.ask(lane, 100)
		for _, m := range answer.Messages {
			r.giveBack(m, Return{NotBefore: time.Now().Add(time.Hour)})
		}
		got += len(answer.Messages)
	}
	r.publish(0, "a", "now")
	if got := payloads(a.take(lane, 1)); got != "now " {
		t.Errorf("the lane gave %s", got)
	}
}

// A message that comes for a lane which was forgotten meanwhile goes back at once, and not after its acknowledgement wait.
func TestAMessageOfAForgottenLaneGoesBack(t *testing.T) {
	r := newRig(t, nil)
	a, other := r.asker(), r.another().asker()
	lane := a.at(0, "a")
	r.publish(0, "a", "x")
	r.giveBack(a.take(lane, 1)[0], Return{}) // the lane exists
	a.Forget(lane)
	// As if the question had been given up: only its message comes.
	if err := r.wire.NC.PublishRequest(lane.next, a.prefix+"zz", []byte(`{"batch":1,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	until(t, "it was handed out twice", func() bool {
		info, err := r.lane(within(t), lane)
		return err == nil && info.Delivered.Consumer >= 2
	})
	if got := payloads(other.take(other.at(0, "a"), 1)); got != "x " {
		t.Errorf("another agent got %q", got)
	}
}
