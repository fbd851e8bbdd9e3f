package broker

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/config"
)

func (r *rig) info(stream string) *jetstream.StreamInfo {
	r.t.Helper()
	s, err := r.wire.JS.Stream(within(r.t), stream)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo()
}

func TestStreamOfADefinition(t *testing.T) {
	r := newRig(t, func(q *config.Queue) {
		q.Limits = config.Limits{MaxMessages: 100, MaxBytes: 1 << 20, MaxMessagesPerKey: 7}
		q.DedupWindow = time.Minute
	})
	c := r.info("FL_Q_orders").Config
	if c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage || c.Compression != jetstream.S2Compression {
		t.Errorf("%+v", c)
	}
	if c.MaxMsgs != 100 || c.MaxBytes != 1<<20 || c.MaxMsgsPerSubject != 7 || !c.DiscardNewPerSubject || c.Duplicates != time.Minute {
		t.Errorf("limits are %+v", c)
	}
	if c.MaxConsumers < 100_000 {
		t.Errorf("the stream takes %d lanes", c.MaxConsumers)
	}
	if d := r.info("FL_DELAY_orders").Config.Duplicates; d != time.Minute {
		t.Errorf("the dedup window of its delayed messages is %v", d)
	}
	if c.MaxAge != 0 || !c.AllowMsgTTL || !c.AllowDirect || len(c.Subjects) != 1 || c.Subjects[0] != "fl.q.orders.>" {
		t.Errorf("%+v", c)
	}
}

// Ensuring the same again changes nothing, by however many agents at once; a change of the definition changes the stream
// in place; what Fairlead does not decide stays.
func TestEnsureStream(t *testing.T) {
	r := newRig(t, nil)
	r.publish(0, "a", "kept")
	created := r.info("FL_Q_orders").Created
	agents := []*rig{r, r.another(), r.another(), r.another()}
	ensure := func(q config.Queue) {
		t.Helper()
		var wg sync.WaitGroup
		for _, agent := range agents {
			wg.Go(func() {
				if err := agent.EnsureStream(within(t), q); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	ensure(r.q)

	byHand := r.info("FL_Q_orders").Config
	byHand.Metadata = map[string]string{"owner": "ops"}
	if _, err := r.wire.JS.UpdateStream(within(t), byHand); err != nil {
		t.Fatal(err)
	}
	changed := definition(func(q *config.Queue) {
		q.Limits = config.Limits{MaxMessages: 5, MaxMessagesPerKey: 2}
		q.DedupWindow = 10 * time.Second
	})
	ensure(changed)
	c := r.info("FL_Q_orders")
	if c.Config.MaxMsgs != 5 || c.Config.MaxMsgsPerSubject != 2 || !c.Config.DiscardNewPerSubject || c.Config.Duplicates != 10*time.Second {
		t.Errorf("after the change: %+v", c.Config)
	}
	if c.Config.Metadata["owner"] != "ops" || !c.Created.Equal(created) || c.State.Msgs != 1 {
		t.Errorf("the change did more than it should: %+v", c)
	}
	ensure(definition(nil))
	if c := r.info("FL_Q_orders").Config; c.MaxMsgs != -1 || c.MaxMsgsPerSubject != -1 || c.DiscardNewPerSubject {
		t.Errorf("limits taken back: %+v", c)
	}
}

// Agents that start together make one stream.
func TestEnsureStreamTogether(t *testing.T) {
	r := newRig(t, nil)
	agents := []*rig{r, r.another(), r.another(), r.another()}
	q := definition(func(q *config.Queue) { q.Name = "fresh" })
	var wg sync.WaitGroup
	for _, agent := range agents {
		wg.Go(func() {
			if err := agent.EnsureStream(within(t), q); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.info("FL_Q_fresh").State.Msgs != 0 {
		t.Error("not empty")
	}
}

func TestForeignStream(t *testing.T) {
	r := newRig(t, nil)
	if _, err := r.wire.JS.CreateStream(within(t), jetstream.StreamConfig{
		Name: "FL_Q_theirs", Subjects: []string{"theirs.>"}, Retention: jetstream.WorkQueuePolicy,
	}); err != nil {
		t.Fatal(err)
	}
	q := definition(func(q *config.Queue) { q.Name = "theirs" })
	if err := r.EnsureStream(within(t), q); err == nil || !strings.Contains(err.Error(), "not made by Fairlead") {
		t.Errorf("a work queue was taken over: %v", err)
	}
	if c := r.info("FL_Q_theirs").Config; c.Subjects[0] != "theirs.>" || c.Discard != jetstream.DiscardOld {
		t.Errorf("it was changed: %+v", c)
	}
}

// Sequences name messages for ever: a stream that was deleted and made again does not use one twice, and they stay exact
// in applications that keep numbers as doubles.
func TestSequences(t *testing.T) {
	r := newRig(t, nil)
	last := uint64(0)
	for range 3 {
		for range 20 {
			seq := r.publish(0, "a", "x").Seq
			if seq <= last || seq < 1_000_000_000_000_000 || seq >= 1<<53 {
				t.Fatalf("%d follows %d", seq, last)
			}
			last = seq
		}
		if err := r.wire.JS.DeleteStream(within(t), "FL_Q_orders"); err != nil {
			t.Fatal(err)
		}
		r.define(r.q)
	}
}
