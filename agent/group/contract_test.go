package group_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/group"
	"github.com/fairlead/fairlead/agent/group/grouptest"
	"github.com/fairlead/fairlead/config"
)

// open gives two views of one new bucket.
type open func(t *testing.T) (a, b group.Bucket)

func openFake(t *testing.T) (a, b group.Bucket) {
	s := grouptest.NewStore()
	return s.Mirror(grouptest.Options{}), s.Mirror(grouptest.Options{})
}

// openReal gives two clients of one embedded server.
func openReal(t *testing.T) (a, b group.Bucket) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	connect := func(nats config.NATS, agent string) *broker.Client {
		c, err := broker.Connect(ctx, broker.Options{NATS: nats, Bucket: "fairlead", Agent: agent, Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if _, err := c.Bucket().Ensure(ctx, 1); err != nil {
			t.Fatal(err)
		}
		c.Bucket().Start()
		return c
	}
	first := connect(config.NATS{Prefix: "fl", Embedded: &config.Embedded{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}}, "a")
	url := first.Connection().URL
	if url == "" {
		t.Fatal("the embedded server does not listen")
	}
	return first.Bucket(), connect(config.NATS{Prefix: "fl", URLs: []string{url}}, "b").Bucket()
}

// writing waits for the outcome of a write.
func writing(t *testing.T, write func(done func(uint64, error))) (uint64, error) {
	t.Helper()
	type result struct {
		revision uint64
		err      error
	}
	results := make(chan result, 1)
	write(func(revision uint64, err error) { results <- result{revision, err} })
	select {
	case r := <-results:
		return r.revision, r.err
	case <-time.After(20 * time.Second):
		t.Fatal("no outcome")
		return 0, nil
	}
}

func must(t *testing.T, revision uint64, err error) uint64 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// witness remembers what a subscription was told.
type witness struct {
	mu   sync.Mutex
	told []bucket.Entry
}

func (w *witness) tell(e bucket.Entry) {
	w.mu.Lock()
	w.told = append(w.told, e)
	w.mu.Unlock()
}

// values is what was told so far: the values in order, "-" for a deletion.
func (w *witness) values() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.told {
		if e.Deleted {
			out = append(out, "-")
		} else {
			out = append(out, string(e.Value))
		}
	}
	return out
}

// contract is what a Group relies on.
func contract(t *testing.T, o open) {
	a, b := o(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	put := func(b group.Bucket, key, value string) uint64 {
		revision, err := writing(t, func(done func(uint64, error)) { b.Put(key, []byte(value), done) })
		return must(t, revision, err)
	}
	swap := func(b group.Bucket, key, value string, at uint64) (uint64, error) {
		return writing(t, func(done func(uint64, error)) { b.Swap(key, []byte(value), at, done) })
	}
	synced := func(b group.Bucket) {
		t.Helper()
		if err := b.Sync(ctx); err != nil {
			t.Fatal(err)
		}
	}

	var early, late witness
	b.Subscribe("hb.", early.tell)
	first := put(a, "hb.a.c", "1")
	if second := put(a, "hb.a.c", "2"); second <= first {
		t.Errorf("revisions %d, then %d", first, second)
	}
	put(a, "other.a", "no")
	synced(b)
	b.Subscribe("hb.", late.tell)
	if got := late.values(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("a late subscriber was told %v", got)
	}
	revision, err := writing(t, func(done func(uint64, error)) { a.Delete("hb.a.c", done) })
	must(t, revision, err)
	synced(b)
	if got := late.values(); !slices.Equal(got, []string{"2", "-"}) {
		t.Errorf("a late subscriber was told %v", got)
	}
	// A watch shows each record's last value; one in between can be missed.
	if got := early.values(); len(got) < 2 || got[len(got)-2] != "2" || got[len(got)-1] != "-" || slices.Contains(got, "no") {
		t.Errorf("an early subscriber was told %v", got)
	}

	var own witness
	a.Subscribe("def.", own.tell)
	one, err := swap(a, "def.q", "a1", 0)
	must(t, one, err)
	if got := own.values(); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("after a confirmed write its author was told %v", got)
	}
	if _, err := swap(b, "def.q", "b1", 0); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a second first write says %v", err)
	}
	two, err := swap(b, "def.q", "b2", one)
	if must(t, two, err) <= one {
		t.Errorf("revisions %d, then %d", one, two)
	}
	if _, err := swap(a, "def.q", "a2", one); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a write on an old revision says %v", err)
	}
	var seen witness
	synced(a)
	a.Subscribe("def.", seen.tell)
	if got := seen.values(); !slices.Equal(got, []string{"b2"}) {
		t.Errorf("the record is %v", got)
	}
	revision, err = writing(t, func(done func(uint64, error)) { a.Delete("def.q", done) })
	must(t, revision, err)
	three := put(b, "def.q", "b3")
	synced(a)
	if got := seen.values(); got[len(got)-1] != "b3" {
		t.Errorf("after a deletion and a write the record is %v", got)
	}
	_, err = swap(a, "def.q", "a4", three)
	must(t, three, err)
}

func TestBucketContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) { contract(t, openFake) })
	t.Run("real", func(t *testing.T) { contract(t, openReal) })
}

// Two groups over a real bucket: what the simulation shows of the fake one holds there too.
func TestTwoAgentsOnARealBucket(t *testing.T) {
	a, b := openReal(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	definition := func(revision, size int64) []config.Queue {
		q := config.Dev("").Queues[0]
		q.Revision, q.Limits.MaxMessages = revision, size
		return []config.Queue{q}
	}
	join := func(b group.Bucket, agent string, defs []config.Queue) (*group.Group, <-chan struct{}) {
		g := group.New(b, group.Config{
			Agent: agent, Boot: agent + "-boot", Interval: 200 * time.Millisecond, StaleAfter: 30 * time.Second, // nobody dies here, and the machine may stand still
			Capsules: []group.Capsule{{Name: "work", Queues: []string{"default"}, ConsumerPriority: 3}}, Definitions: defs,
		})
		changed := make(chan struct{}, 1)
		g.Notify(func(group.Change) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err := g.Start(ctx); err != nil {
			t.Fatal(err)
		}
		return g, changed
	}
	until := func(what string, changed <-chan struct{}, ok func() bool) {
		t.Helper()
		for !ok() {
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	size := func(g *group.Group) int64 {
		q, _ := g.Definition("default")
		return q.Limits.MaxMessages
	}

	first, firstChanged := join(a, "first.>", definition(0, 1))
	second, secondChanged := join(b, "second é", definition(0, 2))
	if size(second) != 1 || len(second.Warnings()) == 0 {
		t.Errorf("the second one uses size %d and warns %q", size(second), second.Warnings())
	}
	first.SetDemand("work", true)
	until("demand", secondChanged, func() bool { return second.Rivals("default", "work").All == 1 })
	if p := second.Peers(); len(p) != 1 || p[0].Agent != "first.>" || p[0].ConsumerPriority != 3 {
		t.Errorf("peers %+v", p)
	}
	second.Reload(definition(1, 3), []group.Capsule{{Name: "work", Queues: []string{"default"}}})
	until("the higher revision", firstChanged, func() bool { return size(first) == 3 })
	if first.Relaid("default") || second.Relaid("default") {
		t.Error("another limit counts as another layout")
	}
	shorter := definition(2, 3)
	shorter[0].Levels, shorter[0].DefaultPriority, shorter[0].LevelNames = 1, 0, nil
	second.Reload(shorter, []group.Capsule{{Name: "work", Queues: []string{"default"}}})
	until("the other layout", firstChanged, func() bool { q, _ := first.Definition("default"); return q.Levels == 1 })
	for !second.Relaid("default") { // it learns of its own write's outcome a moment later
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the one that put another layout in force does not know it")
		}
	}
	if first.Relaid("default") {
		t.Error("the other one thinks that it did")
	}
	if err := second.Stop(ctx); err != nil {
		t.Error(err)
	}
	until("the second one's leave", firstChanged, func() bool { return len(first.Peers()) == 0 && size(first) == 1 })
	if err := first.Stop(ctx); err != nil {
		t.Error(err)
	}
}
