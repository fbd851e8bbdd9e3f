package broker

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/fairshare"
)

// Wake says that a message was stored.
type Wake struct {
	Address Address
	// Weight is the message's own weight; 0 when it has none or an unusable one.
	Weight fairshare.Weight
	// Seq is the message's sequence.
	Seq uint64
	// Known is false when the message is on a subject that is not canonical: only a sweep and a repair can find it.
	Known bool
}

// Watch calls f for every message that is stored in a queue, until the returned function is called. f is called from one
// goroutine per call of Watch, and must not block. Wake-ups can be lost, and do not say that the message is still there.
func (c *Client) Watch(layout Layout, f func(Wake)) (stop func(), err error) {
	prefix := c.names.WakePrefix(layout.Queue)
	// The same few addresses come again and again: parse each once.
	known := map[string]Address{}
	sub, err := c.wire.NC.Subscribe(prefix+"*.*", func(m *nats.Msg) {
		c.metrics.Wakeups.Add(layout.Queue)
		var w Wake
		if h := m.Header.Get(headerWeight); h != "" {
			w.Weight, _ = ParseWeight(h)
		}
		w.Seq = wire.Sequence(m.Header)
		if w.Address, w.Known = known[m.Subject]; !w.Known {
			if class, key, ok := names.Split(m.Subject[len(prefix):]); ok {
				w.Address, w.Known = layout.Address(class, key)
			}
			if w.Known {
				if len(known) >= maxKnownAddresses {
					clear(known)
				}
				known[m.Subject] = w.Address
			}
		}
		f(w)
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	// A flood that outruns the agent may lose wake-ups: the sweep finds what they spoke of.
	_ = sub.SetPendingLimits(1<<17, 64<<20)
	return func() { _ = sub.Unsubscribe() }, nil
}

// maxKnownAddresses bounds the addresses that a watch remembers.
const maxKnownAddresses = 1 << 15
