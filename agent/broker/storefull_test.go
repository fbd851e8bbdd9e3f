package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The server has no room left, whatever the queue's limits are: publishers are told so, at once and for later, what is stored
// can be taken and finished, and that makes room.
func TestPublishToAFullStore(t *testing.T) {
	s := newOutside(t, func(o *server.Options) { o.JetStreamMaxStore = 4 << 20 })
	r := s.rig(nil)
	publish := func(at time.Time) error {
		_, err := r.Publish(within(t), r.q, Publication{Level: 0, Key: "a", Data: make([]byte, 100<<10), At: at})
		return err
	}
	accepted := 0
	var err error
	for ; accepted < 100 && err == nil; accepted++ {
		err = publish(time.Time{})
	}
	var refused *RefusedError
	if !errors.Is(err, ErrStoreFull) || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrQueueFull) || !errors.As(err, &refused) || refused.Code != 10023 {
		t.Fatalf("refused after %d with %v", accepted, err)
	}
	if err := publish(time.Now().Add(time.Hour)); !errors.Is(err, ErrStoreFull) {
		t.Errorf("a delayed one: %v", err)
	}
	if n := r.metrics.Refused.Load("orders", StoreFull); n != 2 {
		t.Errorf("%d refusals are counted, want 2", n)
	}
	a := r.asker()
	r.finished(a.take(a.at(0, "a"), 1)[0])
	until(t, "there is room again", func() bool { return publish(time.Time{}) == nil })
}

func TestRefusals(t *testing.T) {
	for code, full := range map[int]bool{10002: true, 10023: true, 10028: true, 10047: true, 10008: false, 10077: false} {
		err := error(&RefusedError{Code: code, Description: "d"})
		if errors.Is(err, ErrStoreFull) != full || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%d: %v", code, err)
		}
	}
}
