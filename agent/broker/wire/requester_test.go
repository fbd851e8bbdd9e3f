package wire

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// echo answers requests on a subject when it is told to, and records them.
type echo struct {
	asked chan *nats.Msg
}

func newEcho(t *testing.T, nc *nats.Conn, subject string) *echo {
	t.Helper()
	e := &echo{asked: make(chan *nats.Msg, 1000)}
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) { e.asked <- m }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return e
}

func newTestRequester(t *testing.T, nc *nats.Conn, limit int, wait time.Duration) *Requester {
	t.Helper()
	q, err := newRequester(nc, limit, wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.close)
	return q
}

// No more than the limit are under way; the others go out in order as answers come.
func TestRequesterLimit(t *testing.T) {
	nc := connect(t)
	e := newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 3, patience)
	answers := make(chan string, 100)
	for i := range 10 {
		q.Do(&nats.Msg{Subject: "echo", Data: fmt.Append(nil, i)}, func(m *nats.Msg, err error) {
			answers <- fmt.Sprintf("%d:%s %v", i, m.Data, err)
		})
	}
	var order []string
	for range 10 {
		q.mu.Lock()
		flying := len(q.flight)
		q.mu.Unlock()
		if flying > 3 {
			t.Fatalf("%d are under way", flying)
		}
		m := wait(t, e.asked, "a request")
		order = append(order, string(m.Data))
		if err := m.Respond(m.Data); err != nil {
			t.Fatal(err)
		}
		wait(t, answers, "an answer")
	}
	if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(order, want) {
		t.Errorf("went out as %v", order)
	}
}

// Each answer reaches its own caller, in whatever order they come.
func TestRequesterMatches(t *testing.T) {
	nc := connect(t)
	e := newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 100, patience)
	answers := make(chan string, 100)
	for i := range 50 {
		q.Do(&nats.Msg{Subject: "echo", Data: fmt.Append(nil, i)}, func(m *nats.Msg, err error) {
			if err != nil || string(m.Data) != fmt.Sprint(i) {
				answers <- fmt.Sprintf("%d got %v, %v", i, m, err)
				return
			}
			answers <- ""
		})
	}
	asked := make([]*nats.Msg, 50)
	for i := range asked {
		asked[i] = wait(t, e.asked, "a request")
	}
	for _, m := range slices.Backward(asked) {
		if err := m.Respond(m.Data); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		if wrong := wait(t, answers, "an answer"); wrong != "" {
			t.Error(wrong)
		}
	}
}

// What is not answered in time is unknown, and makes room; an answer that comes later goes to nobody.
func TestRequesterTimeout(t *testing.T) {
	nc := connect(t)
	e := newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 1, 50*time.Millisecond)
	errs := make(chan error, 10)
	for range 3 {
		q.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { errs <- err })
	}
	for range 3 {
		if err := wait(t, errs, "a time-out"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
	}
	for range 3 {
		if err := wait(t, e.asked, "a request").Respond(nil); err != nil {
			t.Fatal(err)
		}
	}
	good := make(chan error, 1)
	q.wait = patience
	q.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { good <- err })
	if err := wait(t, e.asked, "a request").Respond([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, good, "an answer"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-errs:
		t.Errorf("a late answer was reported: %v", err)
	default:
	}
}

func TestRequesterNobodyThere(t *testing.T) {
	nc := connect(t)
	q := newTestRequester(t, nc, 1, patience)
	errs := make(chan error, 1)
	q.Do(&nats.Msg{Subject: "nobody"}, func(_ *nats.Msg, err error) { errs <- err })
	if err := wait(t, errs, "word that nobody is there"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// When the connection goes, what was sent is unknown, and what was not sent was not done.
func TestRequesterDisconnected(t *testing.T) {
	nc := connect(t)
	newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 2, patience)
	errs := make(chan error, 10)
	for range 5 {
		q.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { errs <- err })
	}
	q.disconnected()
	unknown, unavailable := 0, 0
	for range 5 {
		switch err := wait(t, errs, "an outcome"); {
		case errors.Is(err, ErrOutcomeUnknown):
			unknown++
		case errors.Is(err, ErrUnavailable):
			unavailable++
		}
	}
	if unknown != 2 || unavailable != 3 {
		t.Errorf("%d are unknown, %d unavailable, of 5", unknown, unavailable)
	}
}

// Closing ends everything, once each, and what comes later is refused.
func TestRequesterClose(t *testing.T) {
	nc := connect(t)
	newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 2, patience)
	var mu sync.Mutex
	count := map[int]int{}
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Add(1)
		q.Do(&nats.Msg{Subject: "echo"}, func(*nats.Msg, error) {
			mu.Lock()
			count[i]++
			mu.Unlock()
			wg.Done()
		})
	}
	q.close()
	q.close()
	wg.Wait()
	if len(count) != 5 {
		t.Errorf("ended %v", count)
	}
	errs := make(chan error, 1)
	q.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { errs <- err })
	if err := wait(t, errs, "a refusal"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// What may not be sent any more when its turn comes is not sent, and those behind it are.
func TestRequesterLooksAgainWhenTheTurnComes(t *testing.T) {
	nc := connect(t)
	e := newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 1, patience)
	answers := make(chan string, 100)
	var over atomic.Bool
	for i := range 3 {
		var still func() bool
		if i == 1 {
			still = func() bool { return !over.Load() }
		}
		q.DoWhile(still, &nats.Msg{Subject: "echo", Data: fmt.Append(nil, i)}, func(_ *nats.Msg, err error) {
			answers <- fmt.Sprintf("%d %t", i, errors.Is(err, ErrUnavailable))
		})
	}
	over.Store(true)
	for range 2 {
		if err := wait(t, e.asked, "a request").Respond(nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for range 3 {
		got = append(got, wait(t, answers, "an answer"))
	}
	slices.Sort(got)
	if want := []string{"0 false", "1 true", "2 false"}; !slices.Equal(got, want) {
		t.Errorf("unavailable: %v, want only the second", got)
	}
	if len(e.asked) > 0 {
		t.Error("more was sent")
	}
}
