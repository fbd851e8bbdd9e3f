package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// instantBroker finishes at once, in the caller's goroutine: what is measured is the book alone.
type instantBroker struct{}

func (instantBroker) Finish(_ *broker.Message, done func(broker.Finish)) { done(broker.Finished) }
func (instantBroker) Bury(_ *broker.Message, _ broker.Burial, done func(broker.Finish, error)) {
	done(broker.Finished, nil)
}

func (instantBroker) Return(_ *broker.Message, _ broker.Return, done func(error)) { done(nil) }
func (instantBroker) Extend(*broker.Message)                                      {}

// BenchmarkDelivery is the whole life of one message, in calls of 64: handed out, written, acked. Per message.
func BenchmarkDelivery(b *testing.B) {
	const batch = 64
	for _, c := range []struct {
		name string
		held int // live deliveries of other apps
	}{{"alone", 0}, {"beside 10000 live", 10_000}} {
		b.Run(c.name, func(b *testing.B) {
			book, o := New(instantBroker{}, fixed{}), &fakeOwner{}
			defer book.Close()
			if c.held > 0 {
				hand(b, book, o, messages("held", 1, c.held), time.Hour, nil)
			}
			s := book.OpenSession()
			msgs := messages("orders", 1, batch)
			list := make([]api.Settlement, batch)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				for i := range msgs {
					msgs[i].Seq = uint64(n + i + 1)
				}
				ds, err := book.Hand(o, msgs, time.Minute, s)
				if err != nil {
					b.Fatal(err)
				}
				book.Written(ds)
				for i := range ds {
					list[i] = api.Settlement{Token: ds[i].Token, Result: api.Ack}
				}
				if r := book.Settle(context.Background(), list); r[0].Status != api.StatusOK {
					b.Fatal(r[0])
				}
			}
		})
	}
}
