package names

import (
	"fmt"
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for rest, want := range map[string]bool{"p0.a": true, "p0": false, "p0.a.b": false, "": false} {
		if _, _, ok := Split(rest); ok != want {
			t.Errorf("%q: %t", rest, ok)
		}
	}
}

func TestClasses(t *testing.T) {
	for level := range MaxLevels {
		if got, ok := ClassLevel(Class(level)); !ok || got != level {
			t.Errorf("level %d came back as %d, %t", level, got, ok)
		}
	}
	if got, ok := ClassLevel(NoPriority); !ok || got != -1 {
		t.Errorf("without a priority: %d, %t", got, ok)
	}
	for _, token := range []string{"", "p", "p00", "p01", "p100", "p-1", "px", "P0", "dd", "0"} {
		if level, ok := ClassLevel(token); ok {
			t.Errorf("%q is read as level %d", token, level)
		}
	}
}

// Nothing of one environment, or of one queue, has the name of something of another.
func TestNamesAreApart(t *testing.T) {
	seen := map[string]string{}
	for _, prefix := range []string{"fl", "flq", "staging"} {
		n := New(prefix, "fairlead")
		for _, queue := range []string{"a", "b", "q", "DEAD_a", "Q_a"} {
			for i, name := range []string{
				n.Stream(queue), n.DelayStream(queue), n.DeadStream(queue), n.Slots(queue), n.SubjectPrefix(queue), n.DelayPrefix(queue),
				n.DeadPrefix(queue), n.SlotPrefix(queue), n.BeatPrefix(queue), n.WakePrefix(queue), n.Free(queue),
			} {
				what := fmt.Sprint(prefix, " ", queue, " ", i)
				if before := seen[name]; before != "" {
					t.Errorf("%s is %s and %s", name, before, what)
				}
				seen[name] = what
			}
		}
	}
}

func TestQueueOf(t *testing.T) {
	n := New("fl", "fairlead")
	class, key := "p0", "a"
	for _, subject := range []string{n.SubjectPrefix("orders") + class + "." + key, n.DelayPrefix("orders") + Delayed{Class: class, Token: key, Handle: "x"}.Subject()} {
		if queue, ok := n.QueueOf(subject); queue != "orders" || !ok {
			t.Errorf("%s is of %q, %t", subject, queue, ok)
		}
	}
	others := []string{n.DeadPrefix("orders") + "p0.a.1", n.WakePrefix("orders") + "p0.a", New("fl2", "x").SubjectPrefix("orders") + "p0.a", "$KV.fairlead.x"}
	if i := slices.IndexFunc(others, func(s string) bool { _, ok := n.QueueOf(s); return ok }); i >= 0 {
		t.Errorf("%s is of a queue", others[i])
	}
}
