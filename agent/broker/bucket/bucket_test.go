package bucket

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

type written struct {
	revision uint64
	err      error
}

func (r *rig) put(key, value string) written {
	r.t.Helper()
	done := make(chan written, 1)
	r.Put(key, []byte(value), func(revision uint64, err error) { done <- written{revision, err} })
	return wait(r.t, done, "a write")
}

func (r *rig) swap(key, value string, revision uint64) written {
	r.t.Helper()
	done := make(chan written, 1)
	r.Swap(key, []byte(value), revision, func(revision uint64, err error) { done <- written{revision, err} })
	return wait(r.t, done, "a write")
}

func (r *rig) erase(key string) written {
	r.t.Helper()
	done := make(chan written, 1)
	r.Delete(key, func(revision uint64, err error) { done <- written{revision, err} })
	return wait(r.t, done, "a delete")
}

func (r *rig) get(key string) string {
	e, ok := r.Get(key)
	if !ok || e.Deleted {
		return "-"
	}
	return string(e.Value)
}

// After Sync an agent sees everything that any agent had written before.
func TestBucketSync(t *testing.T) {
	r := newRig(t)
	other := r.another()
	for i := range 50 {
		value := fmt.Sprint(i)
		if w := r.put("a.b", value); w.err != nil || w.revision < MinFence {
			t.Fatal(w)
		}
		if r.get("a.b") != value {
			t.Fatalf("the writer itself sees %s", r.get("a.b"))
		}
		if err := other.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
		if got := other.get("a.b"); got != value {
			t.Fatalf("after Sync the other agent sees %s, want %s", got, value)
		}
	}
	if w := r.erase("a.b"); w.err != nil {
		t.Fatal(w)
	}
	if err := other.Sync(within(t)); err != nil || other.get("a.b") != "-" {
		t.Errorf("a deleted record is %s, %v", other.get("a.b"), err)
	}
}

// Of several agents that swap at the same revision one succeeds; the others are told, and change nothing.
func TestBucketSwap(t *testing.T) {
	r := newRig(t)
	other := r.another()
	first := r.swap("x", "1", 0)
	if first.err != nil {
		t.Fatal(first)
	}
	if w := other.swap("x", "2", 0); !errors.Is(w.err, ErrConflict) {
		t.Errorf("created twice: %+v", w)
	}
	second := other.swap("x", "3", first.revision)
	if second.err != nil || second.revision <= first.revision {
		t.Errorf("%+v after %+v", second, first)
	}
	if w := r.swap("x", "4", first.revision); !errors.Is(w.err, ErrConflict) {
		t.Errorf("a stale swap: %+v", w)
	}
	if err := r.Sync(within(t)); err != nil || r.get("x") != "3" {
		t.Errorf("the record is %s, %v", r.get("x"), err)
	}
}

// A record that was deleted can be made anew by whoever comes first, also by an agent that came after the deletion.
func TestBucketSwapAfterDelete(t *testing.T) {
	r := newRig(t)
	r.put("a.b", "1")
	if w := r.erase("a.b"); w.err != nil {
		t.Fatal(w)
	}
	late := r.another()
	if w := late.swap("a.b", "2", 0); w.err != nil {
		t.Fatalf("the agent that came later: %v", w.err)
	}
	if w := r.swap("a.b", "3", 0); !errors.Is(w.err, ErrConflict) {
		t.Fatalf("the record is there again: %v", w.err)
	}
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := r.get("a.b"); got != "2" {
		t.Fatalf("it holds %s", got)
	}
}

// A subscriber hears of what is there, then of every change, of deletions too, and of its own keys only.
func TestBucketSubscribe(t *testing.T) {
	r := newRig(t)
	other := r.another()
	r.put("p.there", "1")
	r.put("q.foreign", "1")
	if err := other.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 100)
	other.Subscribe("p.", func(e Entry) { heard <- fmt.Sprintf("%s=%s %t", e.Key, e.Value, e.Deleted) })
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "p.there=1 false"},
		{func() { r.put("p.new", "2") }, "p.new=2 false"},
		{func() { r.put("q.foreign", "2"); r.put("p.there", "3") }, "p.there=3 false"},
		{func() { r.erase("p.new") }, "p.new= true"}, // one by one: what is overwritten before it was told is not told
	} {
		c.change()
		if got := wait(t, heard, c.want); got != c.want {
			t.Errorf("heard %s, want %s", got, c.want)
		}
	}
}

// The watch is opened again by itself when it breaks, and then shows what was missed, deletions too.
func TestBucketThroughARestart(t *testing.T) {
	s := newHost(t)
	r, other := s.rig(), s.rig()
	r.put("stays", "1")
	r.put("goes", "1")
	if err := other.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan Entry, 100)
	other.Subscribe("goes", func(e Entry) { heard <- e })
	wait(t, heard, "the record")
	s.stop()
	if err := other.Sync(within(t)); !errors.Is(err, ErrUnusable) {
		t.Errorf("without a server: %v", err)
	}
	s.start()
	r.reconnected()
	other.reconnected()
	// Gone without a trace: as if it had been deleted, and its mark removed, while nobody watched.
	e, _ := r.Get("goes")
	kv, err := r.wire.JS.Stream(within(t), "KV_fairlead")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.DeleteMsg(within(t), e.Revision); err != nil {
		t.Fatal(err)
	}
	r.put("stays", "2")
	other.restart <- struct{}{}
	if e := wait(t, heard, "word of the deletion"); !e.Deleted {
		t.Errorf("heard %+v", e)
	}
	until(t, "the mirror works again", func() bool { return other.Sync(within(t)) == nil })
	if other.get("stays") != "2" || other.get("goes") != "-" {
		t.Errorf("the mirror shows %s and %s", other.get("stays"), other.get("goes"))
	}
}

// A bucket that is deleted underneath is told at once. Made again, it starts above every revision that ever was.
func TestBucketDeleted(t *testing.T) {
	r := newRig(t)
	before := r.put("x", "old")
	if err := r.wire.JS.DeleteStream(within(t), "KV_fairlead"); err != nil {
		t.Fatal(err)
	}
	if err := r.Sync(within(t)); !errors.Is(err, ErrUnusable) {
		t.Errorf("without a bucket: %v", err)
	}
	if w := r.put("x", "lost"); w.err == nil {
		t.Error("a write without a bucket succeeded")
	}
	if warning, err := r.Ensure(within(t), 1); err != nil || warning != "" {
		t.Fatal(warning, err)
	}
	after := r.put("y", "new")
	if after.err != nil || after.revision <= before.revision {
		t.Errorf("revision %d follows %d, %v", after.revision, before.revision, after.err)
	}
	until(t, "the mirror follows the new bucket", func() bool { return r.Sync(within(t)) == nil })
	until(t, "the old bucket's records are gone", func() bool { return r.get("x") == "-" })
	if r.get("y") != "new" {
		t.Errorf("the mirror shows %s", r.get("y"))
	}
}

// The first write that nobody takes, and the first that the new bucket takes, open the watch again: nobody waits for it
// to find out by itself.
func TestBucketMadeAnewIsWatchedAtOnce(t *testing.T) {
	r := newRig(t)
	other := r.another()
	r.put("x", "old")
	if err := r.wire.JS.DeleteStream(within(t), "KV_fairlead"); err != nil {
		t.Fatal(err)
	}
	if w := r.put("x", "lost"); !errors.Is(w.err, ErrUnusable) || !errors.Is(w.err, wire.ErrNobody) {
		t.Errorf("a write without a bucket: %v", w.err)
	}
	if warning, err := r.Ensure(within(t), 1); err != nil || warning != "" {
		t.Fatal(warning, err)
	}
	other.put("y", "theirs")
	began := time.Now()
	r.put("z", "ours")
	until(t, "another agent's record is seen", func() bool { return r.get("y") == "theirs" })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it was seen only after %v", took)
	}
}

// A record written while the watch opens is not taken for a deleted one.
func TestBucketWriteWhileOpening(t *testing.T) {
	b := newRig(t).Bucket
	deleted := make(chan string, 10)
	b.Subscribe("k", func(e Entry) {
		if e.Deleted {
			deleted <- e.Key
		}
	})
	snapshot := map[string]bool{}
	b.mu.Lock()
	ours := b.seen + 10 // confirmed to us; the watch has not come so far
	b.applyLocked(Entry{Key: "k", Value: []byte("v"), Revision: ours})
	b.mu.Unlock()
	b.complete(snapshot)
	if e, ok := b.Get("k"); !ok || e.Revision != ours {
		t.Error("our own record was dropped")
	}
	select {
	case key := <-deleted:
		t.Errorf("%s was announced as deleted", key)
	case <-time.After(0):
	}
}

// A server that was restarted has forgotten the watch. It is opened again as soon as the agent hears of the connection: by itself
// it would notice only when it has heard nothing for long.
func TestBucketIsWatchedAtOnceAfterARestart(t *testing.T) {
	h := newHost(t)
	r, other := h.rig(), h.rig()
	for range 2 { // the second time within the pause after the first
		h.stop()
		h.start()
		r.reconnected()
		other.reconnected()
		began := time.Now()
		value := fmt.Sprint(began.UnixNano())
		until(t, "another agent's write succeeds", func() bool { return other.put("x", value).err == nil })
		until(t, "it is seen", func() bool { return r.get("x") == value })
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it was seen only after %v", took)
		}
	}
}
