package kvstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/kvstore"
)

// TestWatchLateAdvisory tells a watch of the deletion of an earlier bucket, as a busy server does, and then of its own.
func TestWatchLateAdvisory(t *testing.T) {
	ns := startServer(t)
	admin := connect(t, ns)
	createBucket(t, admin)
	s := kvstore.New(connect(t, ns), bucket, "a")
	one, err := s.Swap(t.Context(), []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	shown, ended := make(chan uint64, 10), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- s.Watch(ctx, func(v leases.Value) { shown <- v.Revision }) }()
	mustSee := func(revision uint64) {
		t.Helper()
		select {
		case got := <-shown:
			if got != revision {
				t.Fatalf("the watch shows %d, want %d", got, revision)
			}
		case err := <-ended:
			t.Fatalf("the watch ended: %v", err)
		case <-time.After(patience):
			t.Fatal("the watch shows nothing")
		}
	}
	mustSee(one)
	tell := func(at time.Time) {
		t.Helper()
		advisory, err := json.Marshal(server.JSStreamActionAdvisory{
			TypedEvent: server.TypedEvent{Type: server.JSStreamActionAdvisoryType, ID: "test", Time: at.UTC()},
			Stream:     "KV_" + bucket, Action: server.DeleteEvent,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Conn().Publish("$JS.EVENT.ADVISORY.STREAM.DELETED.KV_"+bucket, advisory); err != nil {
			t.Fatal(err)
		}
		if err := admin.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	tell(time.Now().Add(-time.Minute))
	two, err := s.Swap(t.Context(), []byte("two"), one)
	if err != nil {
		t.Fatal(err)
	}
	mustSee(two)
	three, err := s.Swap(t.Context(), []byte("three"), two)
	if err != nil {
		t.Fatal(err)
	}
	mustSee(three) // it goes on
	tell(time.Now())
	select {
	case err := <-ended:
		if !errors.Is(err, leases.ErrGone) {
			t.Errorf("Watch = %v, want ErrGone", err)
		}
	case <-time.After(patience):
		t.Error("Watch goes on")
	}
}
