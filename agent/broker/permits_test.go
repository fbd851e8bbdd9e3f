package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/config"
)

// permitHolder owns a ledger and carries out what it asks for, as a capsule does.
type permitHolder struct {
	t       testing.TB
	permits *Permits

	mu      sync.Mutex
	ledger  *permit.Ledger
	answers []permit.Answer
	stopped bool      // as if its process were paused or dead
	beat    time.Time // when it asked for its last beat
}

func (r *rig) holder(name string, limit int, wait time.Duration) *permitHolder {
	r.t.Helper()
	h := &permitHolder{t: r.t, ledger: permit.New(permit.Config{Holder: name, Cap: limit, Wait: wait, Linger: time.Hour})}
	p, err := r.NewPermits(r.q.Name, name, h.enter)
	if err != nil {
		r.t.Fatal(err)
	}
	h.permits = p
	done := make(chan struct{})
	ticker := time.NewTicker(5 * time.Millisecond)
	var ticking sync.WaitGroup
	r.t.Cleanup(func() {
		ticker.Stop()
		close(done)
		ticking.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.Close(ctx)
	})
	ticking.Go(func() {
		for {
			select {
			case <-ticker.C:
				h.enter(func(l *permit.Ledger, now time.Time) { l.Tick(now) })
			case <-done:
				return
			}
		}
	})
	h.enter(func(*permit.Ledger, time.Time) {})
	return h
}

func (h *permitHolder) enter(f func(*permit.Ledger, time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	f(h.ledger, time.Now())
	h.answers = append(h.answers, h.ledger.Answers()...)
	for _, a := range h.ledger.Actions() {
		if a.Kind == permit.Beat {
			h.beat = time.Now()
		}
		h.permits.Do(a)
	}
}

// want asks for permits and waits for the answer.
func (h *permitHolder) want(key string, n int) permit.Answer {
	h.t.Helper()
	h.enter(func(l *permit.Ledger, now time.Time) { l.Want(key, n, now) })
	var a permit.Answer
	until(h.t, "a Want is answered", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, answer := range h.answers {
			if answer.Key == key {
				a = answer
				h.answers = append(h.answers[:i:i], h.answers[i+1:]...)
				return true
			}
		}
		return false
	})
	return a
}

func (h *permitHolder) room(key string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger.Room(key)
}

// giveUp frees and releases permits.
func (h *permitHolder) giveUp(permits ...permit.Permit) {
	h.enter(func(l *permit.Ledger, now time.Time) {
		for _, p := range permits {
			l.Free(p, now)
			l.Trim(p.Key)
		}
	})
}

func (h *permitHolder) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
}

func capped(n int) func(*config.Queue) {
	return func(q *config.Queue) { q.ConcurrencyPerKey = n }
}

// records counts the records of permits in the stream.
func (r *rig) records() int {
	r.t.Helper()
	stream, err := r.wire.JS.Stream(within(r.t), r.names.Slots(r.q.Name))
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := stream.Info(within(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	names := stream.ListConsumers(within(r.t)) // none, ever: what is purged here is lost to nobody
	for range names.Info() {
		r.t.Error("the stream of records has a consumer")
	}
	full, err := stream.Info(within(r.t), jetstream.WithSubjectFilter(r.names.SlotPrefix(r.q.Name)+"*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return int(info.State.Msgs) - len(full.State.Subjects)
}

// hostilePermitKeys try to be something else in a subject.
var hostilePermitKeys = []string{"", "_", "a.b", "*", ">", "a b", "0", "\r\n", "日本"}

// Two holders never have more permits of a key than there are, whatever the key; what one gives up, the other hears of and
// can have.
func TestPermitsAreShared(t *testing.T) {
	r := newRig(t, capped(3))
	one, two := r.holder("one", 3, time.Minute), r.another().holder("two", 3, time.Minute)
	for _, key := range hostilePermitKeys {
		first := one.want(key, 2)
		second := two.want(key, 3)
		if len(first.Permits) != 2 || first.Full || len(second.Permits) != 1 || !second.Full {
			t.Fatalf("key %q: %d and %d permits, full %v and %v", key, len(first.Permits), len(second.Permits), first.Full, second.Full)
		}
		if two.room(key) != 0 {
			t.Fatalf("key %q: there is room for %d more", key, two.room(key))
		}
		one.giveUp(first.Permits[0])
		until(t, fmt.Sprintf("the other holder hears of the permit of %q", key), func() bool { return two.room(key) > 0 })
		third := two.want(key, 1)
		if len(third.Permits) != 1 {
			t.Fatalf("key %q: %d permits after one was given up", key, len(third.Permits))
		}
		one.giveUp(first.Permits[1])
		two.giveUp(append(second.Permits, third.Permits...)...)
	}
	until(t, "no record is left", func() bool { return r.records() == 0 })
	if n := r.metrics.Deletes.Load(); n != 0 {
		t.Errorf("%d permits are counted as messages that were deleted", n)
	}
}

// Permits outlive the server's process; those of a holder that falls silent are removed after the wait, not sooner.
func TestPermitsOfASilentHolder(t *testing.T) {
	t.Parallel()                  // it waits for seconds
	const pause = 2 * time.Second // the machine may stand still for a part of it, and the holder is not silent
	r := newRig(t, capped(2))
	one, two := r.holder("one", 2, pause), r.another().holder("two", 2, pause)
	if got := one.want("k", 2); len(got.Permits) != 2 {
		t.Fatalf("%d permits", len(got.Permits))
	}
	for end := time.Now().Add(2 * pause); time.Now().Before(end); {
		if got := two.want("k", 1); len(got.Permits) > 0 {
			t.Fatal("a third permit while the holder is there")
		}
		until(t, "there may be room", func() bool { return two.room("k") > 0 })
	}
	one.stop()
	silent := one.beat
	for {
		if got := two.want("k", 1); len(got.Permits) > 0 {
			break
		}
		until(t, "there may be room", func() bool { return two.room("k") > 0 })
	}
	if took := time.Since(silent); took < pause {
		t.Errorf("taken over %v after the last beat", took)
	}
}

// A permit that its holder had before a pause of more than the wait is not trusted afterwards.
func TestAPausedHolderDoesNotTrustItsPermits(t *testing.T) {
	t.Parallel()                  // it waits for seconds
	const pause = 2 * time.Second // the machine may stand still for a part of it, and the other holder is not silent
	r := newRig(t, capped(1))
	one, two := r.holder("one", 1, pause), r.another().holder("two", 1, pause)
	got := one.want("k", 1)
	if len(got.Permits) != 1 {
		t.Fatal("no permit")
	}
	one.stop()
	for {
		if got := two.want("k", 1); len(got.Permits) > 0 {
			break
		}
		until(t, "there may be room", func() bool { return two.room("k") > 0 })
	}
	one.mu.Lock()
	one.stopped = false
	one.mu.Unlock()
	for range 20 { // also after its next beats
		one.mu.Lock()
		if one.ledger.Trusted(got.Permits[0], time.Now()) {
			t.Fatal("the permit is trusted, and somebody else has it")
		}
		one.mu.Unlock()
		one.enter(func(l *permit.Ledger, now time.Time) { l.Tick(now) })
	}
	one.giveUp(got.Permits...)
	if more := one.want("k", 1); len(more.Permits) > 0 {
		t.Error("the paused holder has a permit again, and somebody else has it")
	}
	until(t, "only the other holder's record is there", func() bool { return r.records() == 1 })
}

// With caps of their own, many holders of a key never have more than that, at full speed.
func TestPermitsUnderContention(t *testing.T) {
	r := newRig(t, capped(3))
	var mu sync.Mutex
	var wg sync.WaitGroup
	now, most, taken := 0, 0, 0
	for i := range 4 {
		h := r.another().holder(fmt.Sprintf("h%d", i), 3, time.Minute)
		wg.Go(func() {
			for tries, end := 0, time.Now().Add(patience); tries < 50 && time.Now().Before(end); {
				if h.room("hot") == 0 {
					time.Sleep(time.Millisecond) // others have them
					continue
				}
				tries++
				got := h.want("hot", 1)
				mu.Lock()
				now += len(got.Permits)
				taken += len(got.Permits)
				most = max(most, now)
				mu.Unlock()
				mu.Lock()
				now -= len(got.Permits)
				mu.Unlock()
				h.giveUp(got.Permits...)
			}
		})
	}
	wg.Wait()
	if most > 3 || taken < 20 {
		t.Errorf("at most %d at a time, %d in all", most, taken)
	}
}
