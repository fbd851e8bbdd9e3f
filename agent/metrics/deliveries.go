package metrics

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

// deliveries counts deliveries as the book tells of them. Finding a series takes no lock: there are few, and each is made
// once.
type deliveries struct {
	counts  *prometheus.CounterVec
	endings *prometheus.CounterVec
	waits   *prometheus.HistogramVec
	picks   *prometheus.HistogramVec
	works   *prometheus.HistogramVec
	noisy   *atomic.Pointer[noisyKeys]
	heard   heard

	all atomic.Pointer[map[place]*series] // never changed, but replaced by a larger one
	mu  sync.Mutex                        // serialises replacing
}

// place is one level of a queue.
type place struct {
	queue string
	level int
}

// series are the numbers of one place. All but delivered are shared by the levels of a queue.
type series struct {
	delivered    prometheus.Counter
	endings      [delivery.Unknown + 1]prometheus.Counter
	quiet, noisy prometheus.Observer
	pick, work   prometheus.Observer
}

func (d *deliveries) init(noisy *atomic.Pointer[noisyKeys]) {
	d.counts, d.endings = delivered.counters(), settled.counters()
	d.waits, d.picks, d.works = wait.histograms(), picking.histograms(), working.histograms()
	d.noisy = noisy
	d.all.Store(&map[place]*series{})
}

// of finds the series of a place, and makes them the first time.
func (d *deliveries) of(p place) *series {
	if s := (*d.all.Load())[p]; s != nil {
		return s
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := *d.all.Load()
	if s := old[p]; s != nil {
		return s
	}
	s := &series{
		delivered: d.counts.WithLabelValues(p.queue, strconv.Itoa(p.level)),
		quiet:     d.waits.WithLabelValues(p.queue, "quiet"),
		noisy:     d.waits.WithLabelValues(p.queue, "noisy"),
		pick:      d.picks.WithLabelValues(p.queue),
		work:      d.works.WithLabelValues(p.queue),
	}
	for how := delivery.Acked; how <= delivery.Unknown; how++ {
		s.endings[how] = d.endings.WithLabelValues(p.queue, how.String())
	}
	larger := maps.Clone(old)
	larger[p] = s
	d.all.Store(&larger)
	return s
}

// Handed implements delivery.Observer.
func (d *deliveries) Handed(ds []delivery.Delivery) {
	d.heard.note(ds)
	now := time.Now()
	noisy := d.noisy.Load()
	var last place
	var s *series
	for i := range ds {
		m := ds[i].Message
		if p := (place{m.Queue, m.Level}); s == nil || p != last {
			s, last = d.of(p), p
		}
		s.delivered.Inc()
		if !m.Asked.IsZero() {
			s.pick.Observe(now.Sub(m.Asked).Seconds())
		}
		if m.Attempt > 1 {
			continue // it has waited for its backoff, too
		}
		waited := max(now.Sub(m.EnqueuedAt), 0).Seconds()
		if noisy.has(m.Queue, m.Key) {
			s.noisy.Observe(waited)
		} else {
			s.quiet.Observe(waited)
		}
	}
}

// Ended implements delivery.Observer.
func (d *deliveries) Ended(m *broker.Message, how delivery.Result, took delivery.Took) {
	s := d.of(place{m.Queue, m.Level})
	s.endings[how].Inc()
	s.work.Observe(took.Held.Seconds())
}

func (d *deliveries) collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{d.counts, d.endings, d.waits, d.picks, d.works} {
		c.Collect(ch)
	}
}

// noisyKeys are the keys of noisy tenants, by queue. It is never changed.
type noisyKeys map[string]map[string]bool

func (n *noisyKeys) has(queue, key string) bool { return n != nil && (*n)[queue][key] }
