package metrics

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/config"
)

const (
	// scrapesAtATime bounds the work that scrapers cause.
	scrapesAtATime = 4
	scrapeLimit    = 10 * time.Second
)

// Source is the agent whose numbers are shown. Its methods are called only after [Metrics.Start], and are safe for several
// goroutines. All but Held answer without asking a server.
type Source interface {
	Status(ctx context.Context) (*api.AgentStatus, error)
	// Ready is nil while the agent may be used.
	Ready() error
	// Book is what the book of deliveries counts.
	Book() delivery.Stats
	// Definitions are those in force.
	Definitions() []config.Queue
	// Held asks JetStream what a queue holds, with at most keys tenants.
	Held(ctx context.Context, def config.Queue, keys int) (Held, error)
}

// Held is what a queue holds.
type Held struct {
	broker.Stats
	Delayed []uint64 // messages with a delay, by level
	Dead    uint64   // dead letters
}

// Options are what a Metrics needs.
type Options struct {
	Broker  *broker.Metrics
	TopKeys int // tenants of each queue that may be named; 0 is none
	Version string
	Queues  []config.Queue // of the file, whose counters begin at 0 instead of being absent
	Logger  hclog.Logger   // nil is none
}

// Metrics are the numbers of one agent. It is safe for several goroutines.
type Metrics struct {
	o          Options
	deliveries deliveries
	published  *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	sampler    sampler
	source     Source // set by Start
	started    chan struct{}
}

// New returns the metrics of an agent that is yet to be started. It counts from now on.
func New(o Options) *Metrics {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	m := &Metrics{o: o, published: published.counters(), reloads: reloads.counters(), started: make(chan struct{})}
	m.deliveries.init(&m.sampler.noisy)
	m.sampler.init(o, &m.deliveries.heard)
	for _, q := range o.Queues {
		m.published.WithLabelValues(q.Name, stored)
		o.Broker.ExpectQueue(q.Name, q.Levels)
		for level := range q.Levels {
			m.deliveries.of(place{q.Name, level})
		}
	}
	m.reloads.WithLabelValues("applied")
	m.reloads.WithLabelValues("refused")
	return m
}

// Start begins to sample. Scrapes before it are answered 503. Call it once; Stop may follow, or come instead.
func (m *Metrics) Start(s Source) {
	m.source = s
	m.sampler.start(s)
	close(m.started)
}

// Stop ends sampling and waits for it. It can be called twice.
func (m *Metrics) Stop() { m.sampler.stop() }

// The results of publishes that are none of the API's codes.
const (
	stored    = "stored"
	duplicate = "duplicate"
	put       = "delayed"
	failed    = "failed"
)

// Published counts a publish. queue is "" for one that does not exist: whoever publishes must not be able to make labels.
func (m *Metrics) Published(queue string, r broker.Receipt, err error) {
	result := stored
	var refusal *api.Error
	switch {
	case errors.As(err, &refusal):
		result = string(refusal.Code)
	case err != nil:
		result = failed
	case r.Duplicate:
		result = duplicate
	case r.Delayed != "":
		result = put
	}
	m.published.WithLabelValues(queue, result).Inc()
}

// Reloaded counts a reload of the file that was applied, or refused with an error.
func (m *Metrics) Reloaded(err error) {
	result := "applied"
	if err != nil {
		result = "refused"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// Observer is what the book of deliveries tells of them.
func (m *Metrics) Observer() delivery.Observer { return &m.deliveries }

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	numbers := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: failures{m.o.Logger}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtATime, Timeout: scrapeLimit,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-m.started:
			numbers.ServeHTTP(w, r)
		default:
			http.Error(w, "the agent is starting", http.StatusServiceUnavailable)
		}
	})
}

// failures logs what could not be shown.
type failures struct{ log hclog.Logger }

func (f failures) Println(v ...any) { f.log.Warn("a metric cannot be shown", "error", v) }
