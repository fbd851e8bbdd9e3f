package broker

import (
	"fmt"
	"testing"
	"time"
)

// The record of a message that was removed by other means goes as well, once the stream begins behind it.
func TestRecordsOfMessagesThatAreNoMore(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	var seqs []uint64
	for i := range 3 {
		seqs = append(seqs, r.publish(0, "a", fmt.Sprint(i)).Seq)
	}
	for _, m := range a.take(a.at(0, "a"), 3) {
		r.giveBack(m, Return{Counts: AnAttempt})
	}
	stream, err := r.wire.JS.Stream(within(t), r.names.Stream("orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(within(t), seqs[0]); err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		r.attempts.mu.Lock()
		r.attempts.tidy["orders"] = time.Now()
		r.attempts.mu.Unlock()
		if _, err := r.Sweep(within(t), r.layout()); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	until(t, "the first record is gone", func() bool { return !r.hasRecord(seqs[0]) })
	if !r.hasRecord(seqs[1]) || !r.hasRecord(seqs[2]) {
		t.Error("the record of a message that is there was removed")
	}
	if err := stream.Purge(within(t)); err != nil {
		t.Fatal(err)
	}
	sweep()
	until(t, "all records are gone", func() bool { return r.attempts.count.Load() == 0 })
}
