package delivery

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// fakeBroker is a Broker whose outcomes a test decides. By default it finishes and gives back everything at once.
type fakeBroker struct {
	mu        sync.Mutex
	manual    bool // outcomes wait for finish and giveBack
	outcome   func(*broker.Message) broker.Finish
	fail      func(*broker.Message) error // of a Return
	finishes  []func(broker.Finish)
	finishing []*broker.Message
	returns   []returned
	pending   []func(error)
	buried    []buried
	bury      func(*broker.Message) error // nil: everything is buried
	burials   []func(broker.Finish, error)
	extended  map[*broker.Message][]time.Time
}

type buried struct {
	m  *broker.Message
	as broker.Burial
}

type returned struct {
	m   *broker.Message
	how broker.Return
	at  time.Time
}

func (f *fakeBroker) Finish(m *broker.Message, done func(broker.Finish)) {
	f.mu.Lock()
	f.finishing = append(f.finishing, m)
	if f.manual {
		f.finishes = append(f.finishes, done)
		f.mu.Unlock()
		return
	}
	o := broker.Finished
	if f.outcome != nil {
		o = f.outcome(m)
	}
	f.mu.Unlock()
	go done(o)
}

func (f *fakeBroker) Return(m *broker.Message, how broker.Return, done func(error)) {
	f.mu.Lock()
	f.returns = append(f.returns, returned{m, how, time.Now()})
	if f.manual {
		f.pending = append(f.pending, done)
		f.mu.Unlock()
		return
	}
	var err error
	if f.fail != nil {
		err = f.fail(m)
	}
	f.mu.Unlock()
	go done(err)
}

func (f *fakeBroker) Bury(m *broker.Message, as broker.Burial, done func(broker.Finish, error)) {
	f.mu.Lock()
	f.buried = append(f.buried, buried{m, as})
	if f.manual {
		f.burials = append(f.burials, done)
		f.mu.Unlock()
		return
	}
	var err error
	if f.bury != nil {
		err = f.bury(m)
	}
	f.mu.Unlock()
	if err != nil {
		go done(broker.FinishUnknown, err)
		return
	}
	go done(broker.Finished, nil)
}

// buryOne completes the oldest Bury that waits.
func (f *fakeBroker) buryOne(o broker.Finish, err error) bool {
	f.mu.Lock()
	if len(f.burials) == 0 {
		f.mu.Unlock()
		return false
	}
	done := f.burials[0]
	f.burials = f.burials[1:]
	f.mu.Unlock()
	done(o, err)
	return true
}

func (f *fakeBroker) gaveUp() []buried {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]buried(nil), f.buried...)
}

func (f *fakeBroker) Extend(m *broker.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.extended == nil {
		f.extended = make(map[*broker.Message][]time.Time)
	}
	f.extended[m] = append(f.extended[m], time.Now())
}

func (f *fakeBroker) gaveBack() []returned {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]returned(nil), f.returns...)
}

// finish completes the oldest Finish that waits.
func (f *fakeBroker) finish(o broker.Finish) bool {
	f.mu.Lock()
	if len(f.finishes) == 0 {
		f.mu.Unlock()
		return false
	}
	done := f.finishes[0]
	f.finishes = f.finishes[1:]
	f.mu.Unlock()
	done(o)
	return true
}

// giveBack completes the oldest Return that waits.
func (f *fakeBroker) giveBack(err error) bool {
	f.mu.Lock()
	if len(f.pending) == 0 {
		f.mu.Unlock()
		return false
	}
	done := f.pending[0]
	f.pending = f.pending[1:]
	f.mu.Unlock()
	done(err)
	return true
}

// fakeOwner notes what it was told.
type fakeOwner struct {
	mu       sync.Mutex
	released int
	endings  []broker.Ending
	log      []string // "returned" and "released", in order
	returned []ownerReturn
}

type ownerReturn struct {
	m  *broker.Message
	at time.Time
}

func (o *fakeOwner) Released(m *broker.Message, how broker.Ending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released++
	o.endings = append(o.endings, how)
	o.log = append(o.log, "released")
}

func (o *fakeOwner) Returned(m *broker.Message, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned = append(o.returned, ownerReturn{m, at})
	o.log = append(o.log, "returned")
}

func (o *fakeOwner) slots() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.released
}

// fixed is a Retry whose wait is one second per attempt, and a minute from the tenth attempt on.
type fixed struct{}

func (fixed) Backoff(_ string, attempt int) time.Duration {
	if attempt >= 10 {
		return time.Minute
	}
	return time.Duration(attempt) * time.Second
}

// LastAttempt gives up after the third attempt, in queues that are called so.
func (fixed) LastAttempt(queue string, attempt int) bool {
	return queue == "limited" && attempt >= 3
}

func messages(queue string, first uint64, n int) []*broker.Message {
	msgs := make([]*broker.Message, n)
	for i := range msgs {
		msgs[i] = &broker.Message{Queue: queue, Seq: first + uint64(i), Attempt: 1, AckWait: 30 * time.Second}
	}
	return msgs
}

func hand(t testing.TB, b *Book, o Owner, msgs []*broker.Message, lease time.Duration, s *Session) []Delivery {
	t.Helper()
	ds, err := b.Hand(o, msgs, lease, s)
	if err != nil {
		t.Fatalf("Hand: %v", err)
	}
	return ds
}

// settle carries out settlements written as "ack", "nack", "nack 5s", "reject", "extend" or "extend 5s" of one token.
func settle(b *Book, token string, words ...string) api.Status {
	s := api.Settlement{Token: token, Result: api.Result(words[0])}
	if len(words) > 1 && s.Result == api.Nack {
		s.Delay = words[1]
	} else if len(words) > 1 {
		s.Lease = words[1]
	}
	return b.Settle(context.Background(), []api.Settlement{s})[0].Status
}

func wantStatus(t *testing.T, what string, got, want api.Status) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func waitIdle(t testing.TB, b *Book) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
}

func wantAscending(t *testing.T, rs []returned) {
	t.Helper()
	for i := 1; i < len(rs); i++ {
		if rs[i].m.Seq <= rs[i-1].m.Seq {
			t.Fatalf("%d was given back after %d", rs[i].m.Seq, rs[i-1].m.Seq)
		}
	}
}

func describe(rs []returned) string {
	s := ""
	for _, r := range rs {
		s += fmt.Sprintf("%d(counts=%d) ", r.m.Seq, r.how.Counts)
	}
	return s
}
