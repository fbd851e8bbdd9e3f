package broker

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

// A message that is on its way to an app is not handed out again when its lane is made again, or the queue gets another
// layout: nobody who keeps a book knows of it yet. Returned, it comes back at once, also through the older handle.
func TestCopiesOfWhatIsOnItsWay(t *testing.T) {
	for name, disturb := range map[string]func(*rig, *Lane){
		"lane made again": func(r *rig, lane *Lane) {
			if err := r.wire.JS.DeleteConsumer(within(r.t), lane.stream, lane.name); err != nil {
				r.t.Fatal(err)
			}
		},
		"another layout": func(r *rig, _ *Lane) { r.q.Levels = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			a := r.asker()
			lane := a.at(0, "a")
			r.publish(0, "a", "x")
			m := a.take(lane, 1)[0]
			disturb(r, lane)
			next := a.at(0, "a")
			if answer := a.ask(next, 1); len(answer.Messages) != 0 || answer.Held != 1 || answer.Err != nil {
				t.Fatalf("answered %q, held %d, %v", payloads(answer.Messages), answer.Held, answer.Err)
			}
			if n := lane.InHand.Load() + next.InHand.Load(); n != 1 && next != lane {
				t.Errorf("%d are in hand", n)
			}
			r.giveBack(m, Return{Counts: AnAttempt})
			again := a.ask(next, 1)
			if payloads(again.Messages) != "x " {
				t.Fatalf("after it was returned: %q, held %d, %v", payloads(again.Messages), again.Held, again.Err)
			}
			if got := again.Messages[0]; got.Attempt != 2 || r.finished(got) != Finished {
				t.Errorf("came as attempt %d", got.Attempt)
			}
			if lane.InHand.Load() != 0 || next.InHand.Load() != 0 || len(r.holds.taken) != 0 {
				t.Errorf("in the end %d and %d are in hand, %d are held", lane.InHand.Load(), next.InHand.Load(), len(r.holds.taken))
			}
		})
	}
}

// What the same lane delivers again, because nothing was heard of it for its acknowledgement wait, is new work.
func TestWhatTimedOutIsNewWork(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.AckWait = 200 * time.Millisecond })
	a := r.asker()
	r.publish(0, "a", "x")
	first := a.take(a.at(0, "a"), 1)[0]
	second := a.take(a.at(0, "a"), 1)[0]
	if second.Seq != first.Seq || second.Attempt != 2 {
		t.Errorf("%s came as attempt %d", second.Data, second.Attempt)
	}
	r.finished(second)
	r.finished(first)
	if len(r.holds.taken) != 0 {
		t.Errorf("%d are held", len(r.holds.taken))
	}
}

// A copy that is under way while its message is finished is not handed out: its app has been told that all is done.
func TestCopiesOfWhatWasJustFinished(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "x")
	m := a.take(a.at(0, "a"), 1)[0]
	if r.finished(m) != Finished {
		t.Fatal("not finished")
	}
	late := *m
	late.hold = nil
	if r.admit(&late) {
		t.Error("the copy was let through")
	}
	for i := range uint64(2 * finishedMost) {
		r.holds.finish(&Message{Queue: "orders", Seq: i, Lane: m.Lane})
	}
	if n := len(r.holds.finished); n != finishedMost {
		t.Errorf("%d finished messages are remembered", n)
	}
}
