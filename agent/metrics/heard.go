package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/trend"
)

// heardTenants is how many tenants of a queue are told apart between two samples.
const heardTenants = 20_000

// heard notes which tenants got something, while samples are taken: a tenant that keeps up has no messages when somebody looks,
// and is active all the same. The zero value is ready, and notes nothing. It is safe for several goroutines.
type heard struct {
	on atomic.Bool

	mu     sync.Mutex
	queues map[string]map[string]struct{} // since the last look
	before []heardPage                    // looks within the window, the oldest first
}

// heardPage is what was heard of until a look.
type heardPage struct {
	at     time.Time
	queues map[string]map[string]struct{}
}

func (h *heard) note(ds []delivery.Delivery) {
	if !h.on.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues == nil {
		return // nobody wants to know any more
	}
	for i := range ds {
		m := ds[i].Message
		keys := h.queues[m.Queue]
		if keys == nil {
			keys = map[string]struct{}{}
			h.queues[m.Queue] = keys
		}
		if len(keys) < heardTenants {
			keys[m.Key] = struct{}{}
		}
	}
}

// begin forgets everything, and begins to take notes, or ends it.
func (h *heard) begin(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queues, h.before = nil, nil
	if on {
		h.queues = map[string]map[string]struct{}{}
	}
	h.on.Store(on)
}

// look returns the tenants of each queue that got something since the last look, and in looks within the window.
func (h *heard) look(now time.Time) map[string]map[string]struct{} {
	h.mu.Lock()
	h.before = append(h.before, heardPage{now, h.queues})
	h.queues = map[string]map[string]struct{}{}
	for len(h.before) > 1 && now.Sub(h.before[0].at) >= trend.Window {
		h.before = h.before[1:]
	}
	pages := h.before
	h.mu.Unlock()
	all := map[string]map[string]struct{}{}
	for _, page := range pages {
		for queue, keys := range page.queues { // a set does not depend on the order
			if all[queue] == nil {
				all[queue] = make(map[string]struct{}, len(keys))
			}
			for key := range keys {
				all[queue][key] = struct{}{}
			}
		}
	}
	return all
}
