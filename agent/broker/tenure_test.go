package broker

import "testing"

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
