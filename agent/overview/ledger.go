package overview

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/trend"
)

// ledgerTenants is how many tenants of a queue are told apart between two looks.
const ledgerTenants = 20_000

// Ledger notes what each tenant got, while somebody wants to know. The zero value is ready, and notes nothing. It is a
// [delivery.Observer], and safe for several goroutines.
type Ledger struct {
	on atomic.Bool

	mu     sync.Mutex
	queues map[string]*page
}

// page is what one queue delivered since the last look.
type page struct {
	tenants map[string]trend.Got
	others  trend.Got      // of tenants beyond the bound
	levels  map[int]uint64 // deliveries by level
}

var _ delivery.Observer = (*Ledger)(nil)

// Handed implements delivery.Observer.
func (l *Ledger) Handed(ds []delivery.Delivery) {
	if !l.on.Load() {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		return // nobody wants to know any more
	}
	for i := range ds {
		l.noteLocked(ds[i].Message, now)
	}
}

// Ended implements delivery.Observer.
func (l *Ledger) Ended(*broker.Message, delivery.Result, delivery.Took) {}

func (l *Ledger) noteLocked(m *broker.Message, now time.Time) {
	p := l.queues[m.Queue]
	if p == nil {
		p = &page{tenants: map[string]trend.Got{}, levels: map[int]uint64{}}
		l.queues[m.Queue] = p
	}
	p.levels[m.Level]++
	got := trend.Got{Deliveries: 1, Weight: float64(m.Weight) / 1000} // what is set for the tenant counts more; see fill
	if m.Attempt <= 1 {
		waited := max(now.Sub(m.EnqueuedAt), 0)
		got.Waits, got.Waited, got.Longest = 1, waited, waited
	}
	sum, known := p.tenants[m.Key]
	if !known && len(p.tenants) >= ledgerTenants {
		p.others.Add(got)
		return
	}
	sum.Add(got)
	p.tenants[m.Key] = sum
}

// note begins or ends taking notes. What was noted is forgotten.
func (l *Ledger) note(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = nil
	if on {
		l.queues = map[string]*page{}
	}
	l.on.Store(on)
}

// take returns what was noted since the last call, by queue.
func (l *Ledger) take() map[string]*page {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		return nil
	}
	taken := l.queues
	l.queues = map[string]*page{}
	return taken
}
