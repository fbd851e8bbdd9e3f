package metrics

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/trend"
	"github.com/fairlead/fairlead/config"
)

const (
	// samplePause is the shortest time between two samples.
	samplePause = 2 * time.Second
	// sampleShare is how much longer the pause is than what the last sample took: 1 % of a core at most.
	sampleShare = 100
	// sampleLimit is how long one queue may take.
	sampleLimit = 5 * time.Second
	// failedPause is the longest pause after a sample that JetStream did not answer, which costs nobody anything.
	failedPause = 5 * time.Second
	// interest is for how long after a scrape samples are taken.
	interest = 2 * time.Minute
	// noisiest is how many tenants of a queue, the largest ones, are looked at to find the noisy ones.
	noisiest = 1000
)

// sample is what a queue held at a time.
type sample struct {
	held         Held
	at           time.Time
	noisy        int    // tenants
	noisyWaiting uint64 // messages of theirs
}

// sampler asks JetStream what the queues hold, in a goroutine of its own.
type sampler struct {
	keys     int
	log      hclog.Logger
	noisy    atomic.Pointer[noisyKeys]
	heard    *heard
	noise    map[string]*trend.Noise // by queue; run's own
	failures atomic.Uint64
	scraped  chan struct{} // written by scrapes, read by run
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended

	mu      sync.Mutex
	stopped bool
	last    map[string]sample // by queue
	keep    time.Duration     // for how long a sample is shown
}

func (s *sampler) init(o Options, heard *heard) {
	s.heard, s.noise = heard, map[string]*trend.Noise{}
	s.keys, s.log = max(o.TopKeys, noisiest), o.Logger
	s.scraped, s.last, s.keep = make(chan struct{}, 1), map[string]sample{}, interest
}

func (s *sampler) start(source Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go s.run(ctx, source)
}

func (s *sampler) stop() {
	s.mu.Lock()
	s.stopped = true
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// run samples at the start, so that the first scrape has something to show, and then while somebody scrapes.
func (s *sampler) run(ctx context.Context, source Source) {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	until := time.Now().Add(interest)
	s.heard.begin(true)
	defer s.heard.begin(false)
	for {
		select {
		case <-timer.C:
			pause := s.all(ctx, source)
			timer.Reset(pause)
		case <-ctx.Done():
			return
		}
		for idle := true; idle; { // no longer than it takes until somebody scrapes, and not at all if somebody did
			select {
			case <-s.scraped:
				until = time.Now().Add(interest)
			default:
			}
			if idle = time.Now().After(until); idle {
				s.heard.begin(false)
				select {
				case <-s.scraped:
					until = time.Now().Add(interest)
					s.heard.begin(true)
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// wanted says that somebody scrapes.
func (s *sampler) wanted() {
	select {
	case s.scraped <- struct{}{}:
	default:
	}
}

// all samples every queue, and returns how long to pause.
func (s *sampler) all(ctx context.Context, source Source) time.Duration {
	began := time.Now()
	next, noisy, failed := map[string]sample{}, noisyKeys{}, false
	s.mu.Lock()
	old := maps.Clone(s.last)
	s.mu.Unlock()
	heard := s.heard.look(began)
	for _, def := range source.Definitions() {
		one, err := s.one(ctx, source, def)
		if err != nil {
			failed = true
			s.failures.Add(1)
			s.log.Debug("a queue cannot be sampled for metrics; trying again", "queue", def.Name, "error", err)
			if have, ok := old[def.Name]; ok {
				next[def.Name] = have
			}
			continue
		}
		if s.noise[def.Name] == nil {
			s.noise[def.Name] = new(trend.Noise)
		}
		noisy[def.Name] = s.noise[def.Name].Add(loudness(one.held.Stats, one.at, heard[def.Name]))
		one.noisy, one.noisyWaiting = len(noisy[def.Name]), waitingOf(one.held.Stats, noisy[def.Name])
		next[def.Name] = one
	}
	pause := max(samplePause, sampleShare*time.Since(began))
	if failed {
		pause = min(pause, failedPause)
	}
	s.noisy.Store(&noisy)
	s.mu.Lock()
	s.last, s.keep = next, 3*pause
	s.mu.Unlock()
	return pause
}

func (s *sampler) one(ctx context.Context, source Source, def config.Queue) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	held, err := source.Held(ctx, def, s.keys)
	return sample{held: held, at: time.Now()}, err
}

// loudness is what tells the noisy tenants of a queue: what waits, and how many are active, those that got something lately
// among them.
func loudness(stats broker.Stats, at time.Time, heard map[string]struct{}) (s trend.Sample, active int) {
	s = trend.Sample{At: at, Total: stats.KeysTotal, Waiting: stats.Waiting, Tenants: make([]trend.Tenant, 0, len(stats.Keys))}
	active = len(stats.Keys) + len(heard)
	for _, k := range stats.Keys {
		s.Tenants = append(s.Tenants, trend.Tenant{Key: k.Key, Waiting: k.Waiting})
		if _, both := heard[k.Key]; both {
			active--
		}
	}
	return s, max(active, stats.KeysTotal)
}

// waitingOf is what waits of some tenants.
func waitingOf(stats broker.Stats, tenants map[string]bool) (n uint64) {
	for _, k := range stats.Keys {
		if tenants[k.Key] {
			n += k.Waiting
		}
	}
	return n
}

// fresh returns the samples that are not too old to be shown.
func (s *sampler) fresh(now time.Time) map[string]sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := map[string]sample{}
	for queue, one := range s.last { // a set does not depend on the order
		if now.Sub(one.at) <= s.keep {
			fresh[queue] = one
		}
	}
	return fresh
}
