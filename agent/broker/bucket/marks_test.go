package bucket

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The watch is a moment behind an agent's own writes. A record that it has deleted does not come back by that.
func TestDeletedRecordsDoNotComeBack(t *testing.T) {
	b := newRig(t).Bucket
	var told []string
	b.mu.Lock()
	b.subs = append(b.subs, subscription{"x", func(e Entry) { told = append(told, fmt.Sprint(e.Revision, e.Deleted)) }})
	base := b.seen + 100
	for _, e := range []Entry{ // written, deleted, and then the same from the watch
		{Key: "x", Revision: base}, {Key: "x", Revision: base + 1, Deleted: true}, {Key: "x", Revision: base}, {Key: "x", Revision: base + 1, Deleted: true},
	} {
		b.applyLocked(e)
	}
	marks := len(b.markers)
	b.applyLocked(Entry{Key: "x", Revision: base + 2})
	b.mu.Unlock()
	if want := fmt.Sprint([]string{fmt.Sprint(base, false), fmt.Sprint(base+1, true), fmt.Sprint(base+2, false)}); fmt.Sprint(told) != want {
		t.Errorf("told %v, want %s", told, want)
	}
	if marks != 1 {
		t.Errorf("%d marks of one deletion", marks)
	}
}

// Marks of deleted records are removed one at a time, once each, and not before every agent has heard of the deletion.
func TestMarksAreRemoved(t *testing.T) {
	r := newRig(t)
	b := r.Bucket
	const n = 300
	deleted := make(chan error, n)
	for i := range n {
		r.put(fmt.Sprint("x", i), "v")
		b.Delete(fmt.Sprint("x", i), func(_ uint64, err error) { deleted <- err })
	}
	for range n {
		if err := wait(t, deleted, "a deletion"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	marks := len(b.markers)
	b.mu.Unlock()
	if marks != n {
		t.Errorf("%d marks of %d deletions", marks, n)
	}
	b.clean()
	left := func() uint64 {
		stream, err := r.wire.JS.Stream(within(t), "KV_fairlead")
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(within(t), jetstream.WithSubjectFilter("$KV.fairlead.x*"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	if left() < n {
		t.Error("marks were removed before their time")
	}
	b.mu.Lock()
	for i := range b.markers {
		b.markers[i].since = time.Now().Add(-2 * markerAge)
	}
	b.mu.Unlock()
	b.clean()
	until(t, "the marks are gone", func() bool {
		waiting := r.wire.Deletes.Open()
		if waiting > 1 { // an ack would wait for hundreds of marks
			t.Fatalf("%d deletes of marks are under way at once", waiting)
		}
		return left() <= 1 // the record of Sync
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.markers) != 0 || len(b.deleted) != 0 {
		t.Errorf("%d marks and %d keys are remembered", len(b.markers), len(b.deleted))
	}
}
