package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

// A lane of an ordered key gives out one message at a time, whoever asks for how many; one that backs off is not overtaken,
// and what has no priority stands in the same line as the default level.
func TestALaneOfAnOrderedKey(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.OrderedKeys = true })
	other := r.another()
	agents := []*asker{r.asker(), other.asker()}
	for i, level := range []int{-1, 1, -1, 1} {
		r.publish(level, "k", fmt.Sprint(i))
	}
	ask := func(a *asker, n int) []*Message {
		t.Helper()
		a.Ask(a.at(1, "k"), n, 50*time.Millisecond)
		answer := wait(t, a.answers, "an answer")
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
		return answer.Messages
	}
	var free time.Time // not before it
	tries := map[string]int{"0": 2, "3": 1}
	for i := 0; i < 4; {
		a := agents[i%2]
		got := ask(a, 5)
		if len(got) == 0 {
			if !free.IsZero() && time.Since(free) > patience {
				t.Fatalf("%d does not come", i)
			}
			continue
		}
		m := got[0]
		if len(got) > 1 || string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("%s came, want %d", payloads(got), i)
		}
		if time.Now().Before(free) {
			t.Fatalf("%s came %v early", m.Data, time.Until(free))
		}
		for _, one := range agents {
			if more := ask(one, 1); len(more) > 0 {
				t.Fatalf("%s came while %s was out", payloads(more), m.Data)
			}
		}
		if free = time.Now(); tries[string(m.Data)] > 0 {
			tries[string(m.Data)]--
			free = free.Add(200 * time.Millisecond)
			a.r.giveBack(m, Return{Counts: AnAttempt, NotBefore: free})
			continue
		}
		if a.r.finished(m) != Finished {
			t.Fatalf("%s was not finished", m.Data)
		}
		i++
	}
}
