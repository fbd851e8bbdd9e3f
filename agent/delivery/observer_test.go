package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// notes is an Observer that writes down what it hears.
type notes struct {
	mu     sync.Mutex
	handed int
	ended  []string
}

func (n *notes) Handed(ds []Delivery) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handed += len(ds)
}

func (n *notes) Ended(m *broker.Message, how Result, took Took) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, fmt.Sprintf("%d %v %v", m.Seq, how, took.Held))
	said := how == Acked || how == AlreadyFinished || how == Nacked || how == Rejected
	maybe := how == Revoked || how == Unknown // said, and without effect
	if !maybe && said != (took.Settling > 0) {
		n.ended = append(n.ended, fmt.Sprintf("settled within %v", took.Settling))
	}
}

// Each way in which a delivery ends is told once, with how long it took; what was never handed out is not.
func TestTheObserverHearsOfEveryEnd(t *testing.T) {
	old := &grant{fence: 5}
	for name, test := range map[string]struct {
		broker *fakeBroker
		do     func(b *Book, s *Session, d Delivery)
		want   string
	}{
		"ack":              {do: func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "ack"); settle(b, d.Token, "ack") }, want: "1 ack 1s"},
		"nack":             {do: func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "nack") }, want: "1 nack 1s"},
		"reject":           {do: func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "reject") }, want: "1 reject 1s"},
		"extend, then ack": {do: func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "extend"); settle(b, d.Token, "ack") }, want: "1 ack 1s"},
		"expired":          {do: func(*Book, *Session, Delivery) { time.Sleep(time.Minute) }, want: "1 expired 1m0s"},
		"session lost":     {do: func(b *Book, s *Session, _ Delivery) { b.End(s) }, want: "1 session_lost 1s"},
		"unwritten":        {do: func(b *Book, _ *Session, d Delivery) { b.Unwritten([]Delivery{d}) }, want: "1 unwritten 1s"},
		"drained":          {do: func(b *Book, _ *Session, _ Delivery) { b.ReturnAll() }, want: "1 drained 1s"},
		"revoked":          {do: func(b *Book, _ *Session, _ Delivery) { old.over.Store(true); b.Revoke(); old.over.Store(false) }, want: "1 revoked 1s"},
		"finished by somebody else": {
			broker: &fakeBroker{outcome: func(*broker.Message) broker.Finish { return broker.AlreadyFinished }},
			do:     func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "ack") }, want: "1 already_finished 1s",
		},
		"an ack without an answer, then one with": {
			broker: &fakeBroker{outcome: once(broker.FinishUnknown)},
			do:     func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "ack"); settle(b, d.Token, "ack") }, want: "1 ack 1s",
		},
		"a nack after the lease of the queue": {
			broker: &fakeBroker{fail: func(*broker.Message) error { return broker.ErrTenureOver }},
			do:     func(b *Book, _ *Session, d Delivery) { settle(b, d.Token, "nack") }, want: "1 revoked 1s",
		},
		"a nack that JetStream does not hear, and nobody who could ask again": {
			broker: &fakeBroker{fail: func(*broker.Message) error { return errors.New("away") }, manual: true},
			do: func(b *Book, s *Session, d Delivery) {
				f := b.broker.(*fakeBroker)
				go settle(b, d.Token, "nack")
				synctest.Wait()
				b.End(s)
				f.giveBack(errors.New("away"))
			}, want: "1 unknown 1s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := cmp.Or(test.broker, &fakeBroker{})
				b, o, n := New(f, fixed{}), &fakeOwner{}, &notes{}
				defer b.Close()
				b.Observe(n)
				s := b.OpenSession()
				ds := hand(t, b, o, old.messages(1, 1), time.Minute, s)
				if got := hand(t, b, o, old.messages(1, 1), time.Minute, s); len(got) > 0 { // a double goes back
					t.Errorf("handed out twice: %v", got)
				}
				if f.manual {
					synctest.Wait()
					f.giveBack(nil)
				}
				b.Written(ds)
				time.Sleep(time.Second)
				test.do(b, s, ds[0])
				synctest.Wait()
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.handed != 1 || !slices.Equal(n.ended, []string{test.want}) {
					t.Errorf("handed %d, ended %v; want 1, and %s", n.handed, n.ended, test.want)
				}
			})
		})
	}
}

// once is an outcome that the first finish has.
func once(o broker.Finish) func(*broker.Message) broker.Finish {
	asked := false
	return func(*broker.Message) broker.Finish {
		if asked {
			return broker.Finished
		}
		asked = true
		return o
	}
}

// An observer may ask the book: no lock is held while it is called.
type asks struct{ b *Book }

func (a asks) Handed([]Delivery)                   { a.b.Stats() }
func (a asks) Ended(*broker.Message, Result, Took) { a.b.Stats() }

func TestTheObserverMayAskTheBook(t *testing.T) {
	b := New(&fakeBroker{}, fixed{})
	defer b.Close()
	b.Observe(asks{b})
	ds := hand(t, b, &fakeOwner{}, messages("q", 1, 2), time.Minute, nil)
	wantStatus(t, "ack", settle(b, ds[0].Token, "ack"), api.StatusOK)
	wantStatus(t, "nack", settle(b, ds[1].Token, "nack", "0s"), api.StatusOK)
	waitIdle(t, b)
}
