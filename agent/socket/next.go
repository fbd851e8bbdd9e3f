package socket

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/delivery"
)

// next hands out one message: its payload is the answer's body.
func (x *exchange) next() error {
	q, err := x.query("wait", "lease", "session")
	if err != nil {
		return err
	}
	t, err := x.readTake(q)
	if err != nil {
		return err
	}
	if err := x.noBody(); err != nil {
		return err
	}
	h, err := x.takeAndHand(&t, func() []api.SettleResult { return nil })
	if err != nil {
		return err
	}
	if h.ds = x.fresh(h.ds); len(h.ds) == 0 {
		x.noContent()
		return nil
	}
	x.messageHeaders(&h.ds[0])
	data := h.payload(&h.ds[0])
	x.head(http.StatusOK, "", len(data))
	x.bound(h.ds)
	return x.write(h.ds, data)
}

// messageHeaders says in the answer's headers what a pull says in a line.
func (x *exchange) messageHeaders(d *delivery.Delivery) {
	m, h := d.Message, x.w.Header()
	for name, value := range m.Headers {
		switch name {
		case "traceparent", "tracestate":
			h.Set(name, value)
		default:
			h.Set(api.HeaderPrefix+name, value)
		}
	}
	h.Set(api.HeaderToken, d.Token)
	h.Set(api.HeaderQueue, m.Queue)
	h.Set(api.HeaderPriority, strconv.Itoa(m.Level))
	h.Set(api.HeaderKey, url.PathEscape(m.Key)) // as it is published
	h.Set(api.HeaderSeq, strconv.FormatUint(m.Seq, 10))
	h.Set(api.HeaderAttempt, strconv.Itoa(m.Attempt))
	h.Set(api.HeaderID, m.ID)
	h.Set(api.HeaderFence, strconv.FormatUint(m.Fence(), 10))
	h["Content-Type"] = nil // none, rather than a guess
	if m.ContentType != "" {
		h.Set("Content-Type", m.ContentType)
	}
}
