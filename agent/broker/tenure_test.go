package broker

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

// An ack that comes too late deletes nothing: the message is the next holder's.
func TestNothingOfALostTenureIsDeleted(t *testing.T) {
	r := newRig(t, singleActive)
	r.publish(0, "a", "x")
	first := r.tenure(100)
	m := first.take(first.lane("a"), 1)[0]
	first.over.Store(true)
	if got := r.finished(m); got != FinishUnknown {
		t.Errorf("finishing what belongs to a lost tenure: %v", got)
	}
	second := r.another().tenure(200)
	if got := payloads(second.take(second.lane("a"), 1)); got != "x " {
		t.Errorf("the next holder gets %q", got)
	}
}

// A message that was on its way when the connection broke, or that never arrived, counts as delivered until JetStream has
// waited for it. The holder of the lease does not wait: nobody else asks its lanes.
func TestHolderDoesNotWaitForWhatNeverArrived(t *testing.T) {
	t.Parallel() // it waits for seconds
	for name, lose := range map[string]func(s *tenure){
		"the connection breaks": func(s *tenure) { s.connection(false) },
		"no answer comes":       func(*tenure) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(q *config.Queue) { singleActive(q); q.AckWait = time.Minute })
			s := r.tenure(100)
			lane := s.lane("a")
			if a := s.ask(lane, 1); a.Err != nil || !a.Short {
				t.Fatalf("an empty lane: %+v", a)
			}
			r.publish(0, "a", "first")
			r.publish(0, "a", "second")
			r.caughtUp(lane, 2)
			// The first goes somewhere else, as into a connection that is gone.
			gone, err := r.wire.NC.SubscribeSync(r.wire.NC.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.wire.NC.PublishRequest(lane.next, gone.Subject, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
				t.Fatal(err)
			}
			if m, err := gone.NextMsg(patience); err != nil || string(m.Data) != "first" {
				t.Fatal(m, err)
			}
			s.Ask(lane, 1, 0)
			lose(s)
			if a := wait(t, s.answers, "the end of the question"); a.Err == nil {
				t.Fatalf("%+v", a)
			}
			s.Ask(lane, 1, answerLimit/2) // answered at once; far less than the acknowledgement wait
			a := wait(t, s.answers, "an answer")
			if payloads(a.Messages) != "first " || a.Messages[0].Attempt != 1 {
				t.Fatalf("got %q, %+v", payloads(a.Messages), a)
			}
			if r.finished(a.Messages[0]) != Finished {
				t.Error("not finished")
			}
			if got := payloads(s.take(lane, 1)); got != "second " {
				t.Errorf("then %q", got)
			}
		})
	}
}
