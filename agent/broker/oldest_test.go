package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
)

func TestOldest(t *testing.T) {
	r := newRig(t, nil)
	r.publish(1, "a", "first")
	r.publish(0, "a", "second")
	r.publish(-1, "a.*", "hostile")
	r.publish(2, "", "unkeyed")
	r.raw("d.raw", "without an agent")
	later := time.Now().Add(time.Hour)
	ages, err := r.Oldest(within(t), r.q.Name, []string{"a", "a.*", "", "raw", "nobody", "*", ">"}, later)
	if err != nil {
		t.Fatal(err)
	}
	if len(ages) != 4 {
		t.Errorf("ages of %v, want those of a, a.*, the unkeyed and raw alone", ages)
	}
	if ages["a"] < ages["a.*"] || ages["a.*"] < ages["raw"] || ages["raw"] < 50*time.Minute {
		t.Errorf("ages %v: a's oldest is its first, at whatever level", ages)
	}
	if _, err := r.Oldest(within(t), r.q.Name, []string{strings.Repeat("x", 500)}, later); !errors.Is(err, names.ErrInvalidKey) {
		t.Errorf("an impossible key: %v", err)
	}
}

func TestLatestDeadLetters(t *testing.T) {
	r := newDeadRig(t, nil)
	latest := func(most int) string {
		t.Helper()
		list, err := r.LatestDeadLetters(within(t), r.q.Name, most)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, d := range list {
			if d.Data != nil {
				t.Error("a payload is in the list")
			}
			keys = append(keys, d.Key)
		}
		return strings.Join(keys, " ")
	}
	if got := latest(3); got != "" {
		t.Errorf("of none: %s", got)
	}
	a := r.asker()
	var seqs []uint64
	for i := range 6 {
		seqs = append(seqs, a.buried(0, fmt.Sprint("k", i), "boom"))
	}
	if got := latest(3); got != "k5 k4 k3" {
		t.Errorf("the last three are %s", got)
	}
	if got := latest(100); got != "k5 k4 k3 k2 k1 k0" {
		t.Errorf("all are %s", got)
	}
	for _, seq := range seqs[3:] { // those that were put back leave gaps
		if _, err := r.retry(seq, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := latest(2); got != "k2 k1" {
		t.Errorf("behind a gap: %s", got)
	}
}
