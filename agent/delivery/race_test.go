package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// Sixteen apps do everything at once; JetStream sometimes does not answer. Every slot comes back exactly once, no ack is
// ok twice, and every message is finished or given back.
func TestManyAppsAtOnce(t *testing.T) {
	var seed atomic.Uint64
	f := &fakeBroker{
		outcome: func(m *broker.Message) broker.Finish {
			if (m.Seq+seed.Add(1))%7 == 0 {
				return broker.FinishUnknown
			}
			return broker.Finished
		},
		fail: func(m *broker.Message) error {
			if m.Seq%11 == 0 {
				return errors.New("away")
			}
			return nil
		},
	}
	b, o := New(f, fixed{}), &fakeOwner{}
	var handed, ok atomic.Int64
	var wg sync.WaitGroup
	for app := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(app), 99))
			for round := range 60 {
				var s *Session
				if r.IntN(2) == 0 {
					s = b.OpenSession()
				}
				msgs := messages("q", uint64(app*1_000_000+round*100+1), 1+r.IntN(20))
				handed.Add(int64(len(msgs)))
				ds, err := b.Hand(o, msgs, time.Duration(10+r.IntN(20))*time.Millisecond, s)
				if err != nil {
					t.Errorf("Hand: %v", err)
					return
				}
				if r.IntN(10) == 0 {
					b.Unwritten(ds)
				} else {
					b.Written(ds)
				}
				for _, d := range ds {
					list := []api.Settlement{{Token: d.Token, Result: []api.Result{api.Ack, api.Ack, api.Nack, api.Reject, api.Extend}[r.IntN(5)]}}
					if r.IntN(4) == 0 {
						list = append(list, list[0])
					}
					n := 0
					for _, x := range b.Settle(context.Background(), list) {
						if x.Status == api.StatusOK && list[0].Result == api.Ack {
							n++
						}
					}
					if n > 1 {
						t.Errorf("%d acks of %s were ok", n, d.Token)
					}
					ok.Add(int64(n))
					b.Refresh(&broker.Message{Queue: "q", Seq: d.Message.Seq, AckWait: time.Second})
				}
				if s != nil {
					b.End(s)
				}
			}
		})
	}
	wg.Wait()
	waitIdle(t, b)
	b.Close()
	if int64(o.slots()) != handed.Load() {
		t.Errorf("%d slots released, %d handed out", o.slots(), handed.Load())
	}
	if s := b.Stats(); s.InFlight != 0 || s.Live != 0 || s.Acked != uint64(ok.Load()) || len(b.byToken) != 0 {
		t.Errorf("afterwards: %+v, %d acks were ok", s, ok.Load())
	}
}
