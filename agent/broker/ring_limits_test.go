package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

// ringOfBytes limits a queue by bytes.
func ringOfBytes(n int64, more ...func(*config.Queue)) func(*config.Queue) {
	return func(q *config.Queue) {
		q.Limits = config.Limits{MaxBytes: n, Overflow: config.OverflowRing}
		for _, f := range more {
			f(q)
		}
	}
}

// inMemory stores a queue in memory, where JetStream counts bytes in another way.
func inMemory(q *config.Queue) { q.Storage = config.Storage{Type: "memory", Replicas: 1} }

// sized is a payload of n bytes that begins with a name.
func sized(name string, n int) string { return name + strings.Repeat(".", n-len(name)) }

// leftNames lists what is left, without the padding.
func (r *rig) leftNames() string {
	r.t.Helper()
	return strings.ReplaceAll(r.left(), ".", "")
}

// By bytes as many go as the newcomer needs, and none when they would not be enough.
func TestRingBytes(t *testing.T) {
	for name, more := range map[string]func(*config.Queue){"file": func(*config.Queue) {}, "memory": inMemory, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ringOfBytes(10_000, more))
			for i, level := range []int{2, 2, 1, 1, 0} {
				if reason := r.offer(level, "a", sized(fmt.Sprintf("%d%c", level, 'a'+i), 1800)); reason != "" {
					t.Fatal(reason)
				}
			}
			for _, step := range []struct {
				level, size   int
				data, refused string
				left          string
				evictedSoFar  uint64
			}{
				{level: 2, size: 11_000, data: "whale", refused: "max_bytes", left: "2a 2b 1c 1d 0e"},
				{level: 0, size: 9_990, data: "nearly", refused: "max_bytes", left: "2a 2b 1c 1d 0e"}, // too big with its headers
				{level: 2, size: 5_000, data: "big2", refused: "max_bytes", left: "2a 2b 1c 1d 0e"},   // both 2s would not be enough
				{level: 2, size: 1_000, data: "x2", left: "2b 1c 1d 0e x2", evictedSoFar: 1},
				{level: 0, size: 2_500, data: "y0", left: "1c 1d 0e x2 y0", evictedSoFar: 2},
				{level: 1, size: 3_000, data: "z1", left: "1d 0e y0 z1", evictedSoFar: 4}, // x2 and 1c, and no more
				{level: 2, size: 1_500, data: "w2", refused: "lower_than_all", left: "1d 0e y0 z1", evictedSoFar: 4},
				{level: 2, size: 100, data: "s2", left: "1d 0e y0 z1 s2", evictedSoFar: 4}, // there is room for a small one
			} {
				if reason := r.offer(step.level, "a", sized(step.data, step.size)); reason != step.refused {
					t.Errorf("%s: refused with %q, want %q", step.data, reason, step.refused)
				}
				if got := r.leftNames(); got != step.left {
					t.Fatalf("%s: left is %q, want %q", step.data, got, step.left)
				}
				if n := r.evicted(); n != step.evictedSoFar {
					t.Errorf("%s: %d evicted so far, want %d", step.data, n, step.evictedSoFar)
				}
			}
		})
	}
}

// What an agent reckons with is what JetStream counts, to the byte.
func TestRoomCountsAsJetStreamDoes(t *testing.T) {
	for name, more := range map[string]func(*config.Queue){"file": func(*config.Queue) {}, "memory": inMemory} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, more)
			before := int64(0)
			a := r.asker()
			for i, p := range []Publication{
				{Level: 1, Data: []byte("x")},
				{Level: -1, Key: "ä:b", Data: []byte(strings.Repeat("x", 5000)), ID: "1", ContentType: "text/plain", Weight: 1500},
				{Level: 1, Key: "k", Headers: map[string]string{"x-a": "1", "x-b": strings.Repeat("y", 300)}},
			} {
				m, err := r.message(r.q, p, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.storeAndWait(within(t), m); err != nil {
					t.Fatal(err)
				}
				room, err := r.room(within(t), r.names.Stream(r.q.Name), m.Subject)
				if err != nil {
					t.Fatal(err)
				}
				if got := room.sizeOf(m); got != room.bytes-before {
					t.Errorf("%d: reckoned with %d bytes, JetStream counts %d", i, got, room.bytes-before)
				}
				lane := a.at(1, p.Key)
				if p.Level < 0 {
					lane = a.unprioritised(p.Key)
				}
				taken := a.take(lane, 1)[0]
				if got := room.size(taken.bytes, taken.headed); got != room.bytes-before {
					t.Errorf("%d: as it was taken: %d bytes, JetStream counts %d", i, got, room.bytes-before)
				}
				before = room.bytes
			}
			r.raw("p1.bare", "no headers")
			room, err := r.room(within(t), r.names.Stream(r.q.Name), "x")
			if err != nil {
				t.Fatal(err)
			}
			taken := a.take(a.at(1, "bare"), 1)[0]
			if got := room.size(taken.bytes, taken.headed); got != room.bytes-before {
				t.Errorf("of a raw publisher: %d bytes, JetStream counts %d", got, room.bytes-before)
			}
		})
	}
}

// Over the limit per tenant its own oldest goes, and nobody else's.
func TestRingPerKey(t *testing.T) {
	r := newRig(t, func(q *config.Queue) {
		q.Limits = config.Limits{MaxMessagesPerKey: 2, MaxMessages: 6, Overflow: config.OverflowRing}
	})
	for i, key := range []string{"a", "b", "a", "b"} {
		if reason := r.offer(1, key, fmt.Sprint(key, i)); reason != "" {
			t.Fatal(reason)
		}
	}
	if reason := r.offer(1, "b", "b4"); reason != "" {
		t.Fatal(reason)
	}
	r.wantLeft("a0 a2 b3 b4")
	r.offer(0, "b", "b5") // another level
	r.wantLeft("a0 a2 b3 b4 b5")
	a := r.another().asker()
	a.take(a.at(1, "a"), 1)
	if reason := r.offer(1, "a", "a6"); reason != "" {
		t.Fatal(reason)
	}
	r.wantLeft("a0 b3 b4 b5 a6") // a0 is in flight
	a.take(a.at(1, "a"), 1)
	if reason := r.offer(1, "a", "a7"); reason != "max_messages_per_key" {
		t.Errorf("all of a tenant in flight: %q", reason)
	}
	r.offer(2, "c", "c8") // the queue is full now
	if reason := r.offer(1, "b", "b9"); reason != "" {
		t.Fatal(reason)
	}
	r.wantLeft("a0 b4 b5 a6 c8 b9") // one place for both limits
	if n := r.evicted(); n != 3 {
		t.Errorf("%d were evicted, want 3", n)
	}
}

// Without lanes of tenants one tenant's oldest cannot be taken.
func TestRingPerKeyInArrivalOrder(t *testing.T) {
	r := newRig(t, func(q *config.Queue) {
		q.FairShare.Enabled = false
		q.Limits = config.Limits{MaxMessagesPerKey: 1, MaxMessages: 3, Overflow: config.OverflowRing}
	})
	r.offer(1, "a", "a")
	r.offer(1, "b", "b")
	if reason := r.offer(1, "b", "b2"); reason != "max_messages_per_key" {
		t.Errorf("refused with %q", reason)
	}
	r.offer(1, "c", "c")
	if reason := r.offer(1, "d", "d"); reason != "" {
		t.Error(reason)
	}
	r.wantLeft("b c d")
}

// A duplicate makes nobody go.
func TestRingDuplicates(t *testing.T) {
	r := newRig(t, ringOf(2))
	send := func(id, data string) Receipt {
		t.Helper()
		receipt, err := r.Publish(within(t), r.q, Publication{Level: 0, Key: "a", ID: id, Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		return receipt
	}
	first := send("1", "a")
	send("2", "b")
	for range 3 {
		if again := send("1", "again"); !again.Duplicate || again.Seq != first.Seq {
			t.Errorf("the same id at the limit: %+v", again)
		}
	}
	r.wantLeft("a b")
	send("3", "c")
	r.wantLeft("b c")
	if n := r.evicted(); n != 1 {
		t.Errorf("%d were evicted, want 1", n)
	}
}

// A limit that is lowered below what is stored drops nothing; with a ring, the next newcomer makes as many go as it needs.
func TestLimitsLowered(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, func(q *config.Queue) { share(q); q.Limits.MaxMessages = 10 })
		r.fill(2, 2, 2, 1, 1, 1, 0, 0)
		q := r.q
		q.Limits.MaxMessages = 4
		r.define(q)
		if n := r.stored(); n != 8 {
			t.Fatalf("%d are left of 8", n)
		}
		if reason := r.offer(0, "a", "x"); reason != "max_messages" {
			t.Errorf("reject, above the limit: %q", reason)
		}
		q.Limits.Overflow = config.OverflowRing
		r.define(q)
		if reason := r.offer(2, "a", "x"); reason != "max_messages" {
			t.Errorf("the three of its level would not be enough: %q", reason)
		}
		if reason := r.offer(0, "a", "y"); reason != "" {
			t.Fatal(reason)
		}
		r.wantLeft("1f 0g 0h y")
		q.Limits = config.Limits{Overflow: config.OverflowNone}
		r.define(q)
		for i := range 20 {
			if reason := r.offer(2, "a", fmt.Sprint(i)); reason != "" {
				t.Fatalf("without a limit: %s", reason)
			}
		}
	})
}
