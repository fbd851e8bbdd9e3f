package broker

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// buried publishes a message, gives it up, and returns its sequence.
func (a *asker) buried(level int, key, data string) uint64 {
	a.r.t.Helper()
	receipt := a.r.publish(level, key, data)
	lane := a.at(receipt.Level, key)
	if level < 0 && a.r.q.FairShare.Enabled {
		lane = a.unprioritised(key)
	}
	m := a.take(lane, 1)[0]
	if f, err := a.r.bury(m, Burial{DeadRejected, m.Attempt, "boom"}); f != Finished || err != nil {
		a.r.t.Fatal(f, err)
	}
	return m.Seq
}

func (r *rig) retry(seq uint64, level *int) (Receipt, error) {
	r.t.Helper()
	return r.RetryDeadLetter(within(r.t), r.q, r.deadLetterOf(seq), level)
}

func TestRetryGoesWhereItIsTold(t *testing.T) {
	two := 2
	for name, c := range map[string]struct {
		published  int // level; -1: without a priority
		configured *int
		asked      *int
		want       string // of the stored subject
	}{
		"its old level":                           {0, nil, nil, "p0"},
		"without a priority it stays so":          {-1, nil, nil, "d"},
		"the queue's retry_priority":              {0, &two, nil, "p2"},
		"also of a message without one":           {-1, &two, nil, "p2"},
		"a level that was asked for":              {0, nil, &two, "p2"},
		"a level that was asked for goes first":   {0, new(int), &two, "p2"},
		"without a priority in arrival order":     {-1, nil, nil, "d"},
		"the highest level is not taken for none": {1, nil, new(int), "p0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := arrivalOrder
			if !strings.Contains(name, "arrival order") {
				change = nil
			}
			r := newDeadRig(t, change)
			r.q.DeadLetters.RetryPriority = c.configured
			a := r.asker()
			seq := a.buried(c.published, "k", "x")
			receipt, err := r.retry(seq, c.asked)
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.wire.Read(within(t), "FL_Q_orders", wire.Look{Seq: receipt.Seq})
			if err != nil || m == nil || m.Subject != "fl.q.orders."+c.want+".k" {
				t.Fatalf("%+v, %v", m, err)
			}
			if receipt.Level != map[string]int{"p0": 0, "d": 1, "p2": 2}[c.want] {
				t.Errorf("said to be at level %d", receipt.Level)
			}
			if n := len(r.dead()); n != 0 {
				t.Errorf("%d dead letters are left", n)
			}
		})
	}
}

// The copy is the message, with its attempts at zero.
func TestRetryKeepsTheMessage(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	payload := bytes.Repeat([]byte("\x00\xff\r\n"), 4096)
	headers := map[string]string{"x-region": "eu", "traceparent": "00-1-2-01"}
	if _, err := r.Publish(within(t), r.q, Publication{
		Level: 0, Key: "a.b", Weight: 2500, ID: "7", ContentType: "text/x", Headers: headers, Data: payload,
	}); err != nil {
		t.Fatal(err)
	}
	m := a.take(a.at(0, "a.b"), 1)[0]
	for range 2 {
		r.giveBack(m, Return{Counts: AnAttempt, Reason: "boom"})
		m = a.take(a.at(0, "a.b"), 1)[0]
	}
	if f, err := r.bury(m, Burial{DeadMaxAttempts, m.Attempt, "boom"}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	receipt, err := r.retry(m.Seq, nil)
	if err != nil || receipt.Duplicate || receipt.Seq <= m.Seq {
		t.Fatalf("%+v, %v", receipt, err)
	}
	again := a.take(a.at(0, "a.b"), 1)[0]
	if again.Seq != receipt.Seq || again.Attempt != 1 || again.Key != "a.b" || again.Weight != 2500 || again.ID != "7" ||
		again.ContentType != "text/x" || !maps.Equal(again.Headers, headers) || !bytes.Equal(again.Data, payload) {
		t.Errorf("%+v", again)
	}
	if n := r.metrics.DeadRetried.Load(); n != 1 {
		t.Errorf("counted %d", n)
	}
}

// However often and by how many a dead letter is tried again, one copy comes; and one that dies again and is tried again is
// no duplicate of that, also inside the dedup window, also with an id of its publisher.
func TestRetriedOnce(t *testing.T) {
	r := newDeadRig(t, nil)
	other := r.another()
	a := r.asker()
	p := Publication{Level: 0, Key: "k", ID: "order-1", Data: []byte("x")}
	if _, err := r.Publish(within(t), r.q, p); err != nil {
		t.Fatal(err)
	}
	m := a.take(a.at(0, "k"), 1)[0]
	for round := range 3 {
		if f, err := r.bury(m, Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
			t.Fatal(f, err)
		}
		d := r.deadLetterOf(m.Seq)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := []*rig{r, other}[i%2].RetryDeadLetter(within(t), r.q, d, nil); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		if n := r.stored(); n != 1 {
			t.Fatalf("round %d: %d copies", round, n)
		}
		if _, err := r.DeadLetter(within(t), "orders", m.Seq); !errors.Is(err, ErrNoDeadLetter) {
			t.Fatalf("round %d: %v", round, err)
		}
		m = a.take(a.at(0, "k"), 1)[0]
	}
	// A publisher's own repeat is still known as one.
	if receipt, err := r.Publish(within(t), r.q, p); err != nil || !receipt.Duplicate {
		t.Errorf("%+v, %v", receipt, err)
	}
	// No publisher can have the id of a retry.
	d := a.buried(0, "", "y")
	if _, err := r.Publish(within(t), r.q, Publication{Level: 0, ID: fmt.Sprintf("=dead:%d", d), Data: []byte("z")}); err != nil {
		t.Fatal(err)
	}
	if receipt, err := r.retry(d, nil); err != nil || receipt.Duplicate {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A queue without room keeps its dead letters.
func TestRetryIntoAFullQueue(t *testing.T) {
	for reason, limit := range map[string]config.Limits{"max_messages": {MaxMessages: 2}, "max_messages_per_key": {MaxMessagesPerKey: 1}} {
		t.Run(reason, func(t *testing.T) {
			r := newDeadRig(t, func(q *config.Queue) { q.Limits = limit })
			a := r.asker()
			seq := a.buried(0, "k", "x")
			r.publish(0, "k", "1")
			if reason == "max_messages" {
				r.publish(0, "k", "2")
			}
			_, err := r.retry(seq, nil)
			var full *FullError
			if !errors.As(err, &full) || full.Reason != reason {
				t.Fatal(err)
			}
			r.deadLetterOf(seq)
			until(t, "there is room", func() bool {
				for _, m := range a.ask(a.at(0, "k"), 1).Messages {
					r.finished(m)
				}
				_, err := r.retry(seq, nil)
				return err == nil
			})
			if got := payloads(a.take(a.at(0, "k"), int(r.stored()))); !strings.Contains(got, "x ") {
				t.Errorf("%s", got)
			}
		})
	}
}

// A move that was interrupted between its two steps, and a retry after that: one message.
func TestRetryOfAnInterruptedMove(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	seq := r.publish(0, "a", "x").Seq
	m := a.take(a.at(0, "a"), 1)[0]
	letter, err := r.deadLetter(m, Burial{DeadRejected, 1, ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.storeAndWait(within(t), letter); err != nil {
		t.Fatal(err)
	}
	receipt, err := r.retry(seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.stored(); n != 1 {
		t.Errorf("%d messages in the queue", n)
	}
	if again := a.take(a.at(0, "a"), 1)[0]; again.Seq != receipt.Seq || again.Attempt != 1 {
		t.Errorf("%d came, want the copy %d", again.Seq, receipt.Seq)
	}
}

// Lists are in the order of death, bounded, and followed by position.
func TestListAndPurge(t *testing.T) {
	r := newDeadRig(t, nil)
	if list := r.dead(); len(list) != 0 {
		t.Errorf("%d at the beginning", len(list))
	}
	a := r.asker()
	var want []uint64
	for i := range 20 {
		want = append(want, a.buried(i%3, "k", fmt.Sprint(i)))
	}
	seqs := func(list []*DeadLetter) (s []uint64) {
		for _, d := range list {
			s = append(s, d.Seq)
		}
		return s
	}
	if got := seqs(r.dead()); !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	some, err := r.DeadLetters(within(t), "orders", 7)
	if err != nil || !slices.Equal(seqs(some), want[:7]) {
		t.Errorf("the first 7: %v, %v", seqs(some), err)
	}
	var walked []uint64
	for at := uint64(0); ; {
		d, next, err := r.NextDeadLetter(within(t), "orders", at)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			break
		}
		if string(d.Data) != fmt.Sprint(len(walked)) {
			t.Errorf("payload %s", d.Data)
		}
		walked, at = append(walked, d.Seq), next
	}
	if !slices.Equal(walked, want) {
		t.Errorf("walked %v, want %v", walked, want)
	}
	r.publish(0, "a", "waits")
	if n, err := r.PurgeDeadLetters(within(t), "orders"); n != 20 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if len(r.dead()) != 0 || r.stored() != 1 || r.metrics.DeadPurged.Load() != 20 {
		t.Error("the purge took too much, or too little, or was not counted")
	}
}

// none wants that there is nothing, and no error.
func none[N int | uint64](n N, err error) error {
	if err == nil && n != 0 {
		err = fmt.Errorf("there are %d", n)
	}
	return err
}

// A queue whose dead-letter stream is not there has no dead letters, which is no error.
func TestNoDeadLetterStream(t *testing.T) {
	r := newRig(t, nil)
	for what, ask := range map[string]func() error{
		"list":  func() error { list, err := r.DeadLetters(within(t), "orders", deadMost); return none(len(list), err) },
		"count": func() error { n, err := r.DeadCount(within(t), "orders"); return none(n, err) },
		"one": func() error {
			if _, err := r.DeadLetter(within(t), "orders", 1); !errors.Is(err, ErrNoDeadLetter) {
				return fmt.Errorf("%w, want ErrNoDeadLetter", err)
			}
			return nil
		},
		"next": func() error {
			d, _, err := r.NextDeadLetter(within(t), "orders", 0)
			if d != nil {
				return none(1, err)
			}
			return err
		},
		"purge": func() error { n, err := r.PurgeDeadLetters(within(t), "orders"); return none(n, err) },
	} {
		// Nothing is waited for: the quickest of three, because the machine may stand still during one.
		quickest := time.Hour
		for range 3 {
			began := time.Now()
			if err := ask(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			quickest = min(quickest, time.Since(began))
		}
		if quickest > time.Second {
			t.Errorf("%s takes %v", what, quickest)
		}
	}
}

// What a retry puts back is a new message: it does not expire as the old one did, and is none of the delayed.
func TestARetryIsANewMessage(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newDeadRig(t, nil)
	a := r.asker()
	// It lives long enough to be taken on a slow machine.
	seq := r.raw("p0.a", "x", headerExpires, time.Now().Add(2*time.Second).Format(time.RFC3339Nano),
		headerDelayed, names.NewHandle(time.Now()), "Fairlead-Weight", "3", "x-up", "1")
	m := a.take(a.at(0, "a"), 1)[0]
	if f, err := r.bury(m, Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	until(t, "it would have expired", func() bool { return m.Expired(time.Now()) })
	if _, err := r.retry(seq, nil); err != nil {
		t.Fatal(err)
	}
	again := a.take(a.at(0, "a"), 1)[0]
	if !again.Expires.IsZero() || again.delayed != "" || again.Weight != 3000 || again.Headers["x-up"] != "1" {
		t.Errorf("%+v", again)
	}
}
