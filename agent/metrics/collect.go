package metrics

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// statusLimit is how long the capsules may take to say how they are.
const statusLimit = 5 * time.Second

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.sampler.wanted()
	m.deliveries.collect(ch)
	m.published.Collect(ch)
	m.reloads.Collect(ch)
	out := sink{ch}
	m.collectBroker(out)
	m.collectBook(out)
	m.collectAgent(out)
	m.collectSamples(out)
}

// sink takes single values.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) add(f *family, value float64, labels ...string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD") // one bad name must not hide all others
	}
	m, err := prometheus.NewConstMetric(f.desc, f.kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(f.desc, err)
	}
	s.ch <- m
}

func (s sink) count(f *family, n uint64, labels ...string) { s.add(f, float64(n), labels...) }

func (s sink) flag(f *family, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.add(f, value, labels...)
}

func (s sink) counts(f *family, c *broker.Counts) {
	c.Each(func(name broker.Count, n uint64) { s.count(f, n, name.Queue, name.Label) })
}

func (s sink) queueCounts(f *family, c *broker.QueueCounts) {
	c.Each(func(queue string, n uint64) { s.count(f, n, queue) })
}

func (m *Metrics) collectBroker(out sink) {
	b := m.o.Broker
	out.counts(refused, &b.Refused)
	out.counts(evicted, &b.Evicted)
	out.counts(dead, &b.Dead)
	out.counts(dropped, &b.Dropped)
	out.count(burialsFailed, b.BurialsFailed.Load())
	out.count(deadRetried, b.DeadRetried.Load())
	out.count(deadPurged, b.DeadPurged.Load())
	out.counts(expired, &b.Expired)
	out.count(delayedMoved, b.DelayedMoved.Load())
	out.count(cancelled, b.Cancelled.Load())
	out.count(returned, b.Returned.Load())
	out.count(heldBack, b.HeldBack.Load())
	out.count(finishes, b.Deletes.Load())
	out.count(finishesUnknown, b.DeletesUnknown.Load())
	out.queueCounts(lanePulls, &b.LanePulls)
	out.queueCounts(emptyPulls, &b.EmptyPulls)
	out.count(lanesMade, b.LanesMade.Load())
	out.count(lanesLost, b.LanesLost.Load())
	out.queueCounts(wakeups, &b.Wakeups)
	out.queueCounts(sweeps, &b.Sweeps)
	out.count(repaired, b.Repaired.Load())
	out.count(poison, b.PoisonWeights.Load(), "weight")
	out.count(poison, b.UnknownLevels.Load(), "level")
	out.count(poison, b.UnknownKeys.Load(), "key")
}

func (m *Metrics) collectBook(out sink) {
	b := m.source.Book()
	out.count(extended, b.Extended)
	out.count(unavailable, b.Unavailable)
	out.count(damaged, b.Damaged)
	out.count(withheld, b.Late, "late")
	out.count(withheld, b.TooLate, "expired")
	out.count(withheld, b.Doubles, "double")
	out.count(returnFailures, b.ReturnsFailed)
	out.add(sessions, float64(b.Sessions))
}

func (m *Metrics) collectAgent(out sink) {
	out.add(info, 1, m.o.Version)
	out.flag(readiness, m.source.Ready() == nil)
	ctx, cancel := context.WithTimeout(context.Background(), statusLimit)
	defer cancel()
	s, err := m.source.Status(ctx)
	if err != nil {
		return
	}
	out.flag(connected, s.Broker.Connected)
	out.count(reconnects, s.Broker.Reconnects)
	out.flag(draining, s.State == api.StateDraining)
	out.add(warnings, float64(len(s.Warnings)))
	isPaused := map[string]bool{}
	for _, c := range s.Capsules {
		out.add(concurrency, float64(c.Concurrency), c.Name)
		out.add(credit, float64(c.Credit), c.Name)
		out.add(inHand, float64(c.InFlight), c.Name)
		out.add(pulls, float64(c.Pulls), c.Name)
		out.flag(demand, c.Demand, c.Name)
		for _, q := range c.Queues {
			isPaused[q.Name] = isPaused[q.Name] || q.Paused
			collectCapsuleQueue(out, c.Name, q)
		}
	}
	serving := map[string]int{}
	for _, p := range s.Peers {
		for _, q := range p.Queues {
			serving[q]++
		}
	}
	for _, def := range m.source.Definitions() {
		out.add(peers, float64(serving[def.Name]), def.Name)
		out.flag(paused, isPaused[def.Name], def.Name)
		if n := def.Limits.MaxMessages; n > 0 {
			out.add(mostStored, float64(n), def.Name)
		}
		if n := def.Limits.MaxBytes; n > 0 {
			out.add(mostBytes, float64(n), def.Name)
		}
	}
}

func collectCapsuleQueue(out sink, capsule string, q api.CapsuleQueue) {
	out.flag(backsOff, q.BacksOff, capsule, q.Name)
	if q.Lease == "" {
		return
	}
	for _, state := range []string{api.LeaseHolder, api.LeaseHandingOver, api.LeaseStandby, api.LeaseIdle} {
		out.flag(leaseState, q.Lease == state, capsule, q.Name, state)
	}
	if q.Fence > 0 {
		out.count(leaseFence, q.Fence, capsule, q.Name)
	}
}

func (m *Metrics) collectSamples(out sink) {
	out.count(sampleFailure, m.sampler.failures.Load())
	now := time.Now()
	samples := m.sampler.fresh(now)
	for _, def := range m.source.Definitions() {
		one, ok := samples[def.Name]
		if !ok {
			continue
		}
		out.add(sampleAge, now.Sub(one.at).Seconds(), def.Name)
		for _, l := range one.held.Levels {
			level := strconv.Itoa(l.Level)
			out.count(waiting, l.Waiting, def.Name, level)
			out.count(inFlight, l.InFlight, def.Name, level)
			n := l.BackingOff
			if l.Level < len(one.held.Delayed) {
				n += one.held.Delayed[l.Level]
			}
			out.count(delayed, n, def.Name, level)
			out.add(oldest, l.OldestAge.Seconds(), def.Name, level)
		}
		out.count(deadLetters, one.held.Dead, def.Name)
		out.count(storedNow, one.held.Stored, def.Name)
		out.count(bytes, one.held.Bytes, def.Name)
		out.add(tenants, float64(one.held.KeysTotal), def.Name)
		out.add(noisyTenants, float64(one.noisy), def.Name)
		out.count(tenantBacklog, one.noisyWaiting, def.Name, "noisy")
		out.count(tenantBacklog, one.held.Waiting-min(one.noisyWaiting, one.held.Waiting), def.Name, "quiet")
		out.add(lanes, float64(one.held.Lanes), def.Name)
		for _, k := range one.held.Keys[:min(m.o.TopKeys, len(one.held.Keys))] {
			out.count(keyWaiting, k.Waiting, def.Name, k.Key)
			out.count(keyInFlight, k.InFlight, def.Name, k.Key)
		}
	}
}
