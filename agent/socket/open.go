package socket

import (
	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

// keptExpanded is how many bytes of expanded payloads a pull keeps from looking at them until they are written. What is
// beyond is expanded a second time then: however many messages a pull gets, it holds little more than the largest of them.
const keptExpanded = 4 << 20

// handful are the deliveries of a pull, with what is known of their payloads.
type handful struct {
	ds       []delivery.Delivery
	expanded map[*broker.Message][]byte // of compressed messages, as far as they were kept; nil without any
	kept     int                        // bytes of expanded
}

// open looks whether the payloads of deliveries can be read, before anything of the answer is written. What cannot be read
// is never delivered: it is rejected in its app's place.
func (x *exchange) open(ds []delivery.Delivery) handful {
	h := handful{ds: ds}
	var bad []api.Settlement
	for i := range ds {
		err := h.expand(x, ds[i].Message)
		switch {
		case err != nil:
			m := ds[i].Message
			x.log.Warn("a message is not delivered: its payload cannot be expanded", "queue", m.Queue, "seq", m.Seq, "key", m.Key, "error", err)
			if bad == nil {
				h.ds = append([]delivery.Delivery(nil), ds[:i]...)
			}
			bad = append(bad, api.Settlement{Token: ds[i].Token, Result: api.Reject, Reason: err.Error()})
		case bad != nil:
			h.ds = append(h.ds, ds[i])
		}
	}
	if bad != nil {
		x.work.Go(func() { x.Book.RejectDamaged(x.base, bad) })
	}
	return h
}

// expand tells whether a message's payload can be read, and keeps it if there is room.
func (h *handful) expand(x *exchange, m *broker.Message) error {
	if !m.Compressed {
		return nil
	}
	q, _ := x.Publisher.Definition(m.Queue)
	data, err := m.Payload(q.Limits.MaxPayload)
	if err != nil || h.kept+len(data) > keptExpanded {
		return err
	}
	if h.expanded == nil {
		h.expanded = make(map[*broker.Message][]byte, len(h.ds))
	}
	h.expanded[m] = data
	h.kept += len(data)
	return nil
}

// payload is what d's app gets: what was published.
func (h *handful) payload(d *delivery.Delivery) []byte {
	m := d.Message
	if !m.Compressed {
		return m.Data
	}
	if data, kept := h.expanded[m]; kept {
		return data
	}
	data, _ := m.Payload(0) // it is within its limits, as expand has seen
	return data
}
