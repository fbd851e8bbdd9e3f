package broker

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// What it costs an agent to ask for the delete that finishes a message and to hear of it. Nobody deletes: the answer comes
// from a subscription in the same process, whose cost is in the figures too.
func BenchmarkDeletion(b *testing.B) {
	r := newRig(b, arrivalOrder)
	lane := &Lane{stream: "delete", remove: "bench.delete"}
	sub, err := r.wire.NC.Subscribe(lane.remove, func(m *nats.Msg) { _ = m.Respond([]byte(`{"success":true}`)) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	window := make(chan struct{}, 64) // as many as an agent has in flight
	var all sync.WaitGroup
	b.ReportAllocs()
	for i := range b.N {
		window <- struct{}{}
		all.Add(1)
		r.Finish(&Message{Queue: "orders", Seq: uint64(i) + 1, Lane: lane}, func(f Finish) {
			if f != Finished {
				b.Error(f)
			}
			<-window
			all.Done()
		})
	}
	all.Wait()
}

// What it costs to take a message out of what a lane delivered.
func BenchmarkTake(b *testing.B) {
	r := newRig(b, arrivalOrder)
	lane := newLane(r.names, r.layout(), Address{Level: 0, Class: names.Class(0)})
	raw := &nats.Msg{Subject: lane.filters[0], Reply: "$JS.ACK.FL_Q_orders.lane.1.17.17.1700000000000000000.5", Data: make([]byte, 256)}
	meta := &nats.MsgMetadata{NumDelivered: 1, Timestamp: time.Unix(1_700_000_000, 0)}
	b.ReportAllocs()
	for i := range b.N {
		meta.Sequence.Stream = uint64(i) + 1
		m := r.decode(lane, raw, meta)
		if !r.admit(m) {
			b.Fatal("not admitted")
		}
		m.letGo()
	}
}
