package dispatch

import (
	"testing"

	"github.com/fairlead/fairlead/agent/broker"
)

// A message that this agent stored itself is told of once, whether its wake-up comes first or last.
func TestStoredAndWokenIsToldOnce(t *testing.T) {
	q, r := &broker.Layout{Queue: "q"}, &broker.Layout{Queue: "r"}
	key := wakeKey{q, broker.Address{Class: "p0"}}
	told := func(b *mailbox) int {
		full := b.take(&batch{wakes: map[wakeKey]wakeNote{}})
		n := 0
		for _, k := range full.order {
			n += full.wakes[k].n
		}
		return n
	}
	for name, script := range map[string]func(b *mailbox) (want int){
		"stored, then woken":            func(b *mailbox) int { b.stored(key, 0, 7); b.wake(key, 0, 7); return 1 },
		"woken, then stored":            func(b *mailbox) int { b.wake(key, 0, 7); b.stored(key, 0, 7); return 1 },
		"another's between":             func(b *mailbox) int { b.stored(key, 0, 7); b.wake(key, 0, 6); b.wake(key, 0, 7); return 2 },
		"the wake-up is lost":           func(b *mailbox) int { b.stored(key, 0, 7); b.wake(key, 0, 8); return 2 },
		"of two queues with one number": func(b *mailbox) int { b.stored(key, 0, 7); b.wake(wakeKey{r, key.address}, 0, 7); return 2 },
	} {
		b := newMailbox()
		want := script(b)
		if got := told(b); got != want {
			t.Errorf("%s: told %d times, want %d", name, got, want)
		}
	}
	b := newMailbox()
	for i := range uint64(3 * maxAhead) {
		b.stored(key, 0, i+1)
	}
	if len(b.ahead) > maxAhead {
		t.Errorf("%d messages are kept in mind", len(b.ahead))
	}
}
