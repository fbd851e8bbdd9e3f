package overview

import (
	"context"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/trend"
	"github.com/fairlead/fairlead/config"
)

const (
	// MaxRows is how many tenants an overview lists, in all queues together.
	MaxRows = 400
	// MostRows and LeastRows are how many tenants of one queue it lists, by how many queues there are.
	MostRows, LeastRows = 24, 3

	keysAsked   = 1000            // tenants with the most waiting, which are looked at
	agesAsked   = 120             // reads for ages, in all queues together
	deadShown   = 8               // dead letters of a queue
	deadRefresh = 2 * time.Second // at most so often, however fast messages die
	problems    = 3               // that are told; there can be one for each queue
)

// film remembers what one overview needs of those before it.
type film struct {
	number uint64
	last   time.Time // zero before the first
	queues map[string]*reel
}

// reel is one queue of it.
type reel struct {
	trend  trend.Queue
	levels []rate
	shown  *api.QueueOverview // the last time that it could be looked at
	dead   uint64             // dead letters when latest was read
	read   time.Time          // when that was
	latest []api.DeadLetter
}

// rate is what a level delivered since a time.
type rate struct {
	at     time.Time
	counts map[int]uint64
}

// begin forgets all but the numbering: nobody has looked for a while.
func (f *film) begin() { f.queues, f.last = map[string]*reel{}, time.Time{} }

// take looks at everything, one after the other.
func (f *film) take(ctx context.Context, source Source, ledger *Ledger, now time.Time) (*api.Overview, error) {
	o := &api.Overview{At: now.UTC(), Queues: []api.QueueOverview{}}
	if !f.last.IsZero() {
		o.EverySeconds = now.Sub(f.last).Seconds()
	}
	f.last = now
	var err error
	if o.Status, err = source.Status(ctx); err != nil {
		return nil, err
	}
	defs := source.Definitions()
	kept := make(map[string]*reel, len(defs))
	notes := ledger.take()
	var failed []string
	for _, def := range defs {
		r := f.queues[def.Name]
		if r == nil {
			r = &reel{}
		}
		kept[def.Name] = r
		if !o.Status.Broker.Connected { // each queue would wait for its time to be over
			o.Queues = append(o.Queues, r.asBefore(def))
			continue
		}
		q, err := r.take(ctx, source, def, notes[def.Name], len(defs))
		if err != nil {
			failed = append(failed, problem(def.Name, err))
			o.Queues = append(o.Queues, r.asBefore(def))
			continue
		}
		r.shown = q
		o.Queues = append(o.Queues, *q)
	}
	f.queues = kept
	if !o.Status.Broker.Connected {
		failed = append(failed, "NATS cannot be reached: queues are shown as they were")
	}
	if more := len(failed) - problems; more > 0 {
		failed = append(failed[:problems], "and more")
	}
	o.Problem = strings.Join(failed, "; ")
	o.TookSeconds = time.Since(now).Seconds()
	return o, ctx.Err()
}

// asBefore is a queue that cannot be looked at now. What was delivered meanwhile is lost to the rates, which begin anew.
func (r *reel) asBefore(def config.Queue) api.QueueOverview {
	r.trend, r.levels = trend.Queue{}, nil
	if r.shown != nil {
		return *r.shown
	}
	q := api.QueueOverview{QueueSummary: api.QueueSummary{Name: def.Name, Levels: def.Levels}, FairShare: def.FairShare.Enabled}
	q.LevelStats, q.Tenants, q.Latest = []api.LevelOverview{}, []api.TenantOverview{}, []api.DeadLetter{}
	q.Quiet.OldestAgeSeconds, q.Noisy.OldestAgeSeconds, q.Rest.OldestAgeSeconds = -1, -1, -1
	return q
}

func (r *reel) take(ctx context.Context, source Source, def config.Queue, notes *page, queues int) (*api.QueueOverview, error) {
	ctx, cancel := context.WithTimeout(ctx, queueLimit)
	defer cancel()
	held, err := source.Queue(ctx, def.Name, keysAsked)
	if err != nil {
		return nil, err
	}
	if notes == nil {
		notes = &page{}
	}
	at := time.Now()
	rows := min(max(MaxRows/queues, LeastRows), MostRows)
	view := r.trend.Add(sampleOf(held, def, source, notes, at), rows)
	q := &api.QueueOverview{
		QueueSummary: held.QueueSummary, FairShare: def.FairShare.Enabled, OldestAgeSeconds: held.OldestAgeSeconds,
		WindowSeconds: view.Window.Seconds(), Deliveries: view.Got.Deliveries, DeliveredPerSecond: view.PerSecond,
		TenantsActive: view.Active, Quiet: classOf(view.Quiet), Noisy: classOf(view.Noisy), Rest: classOf(view.Rest),
		Tenants: make([]api.TenantOverview, 0, len(view.Tenants)), AsOf: at.UTC(), Warnings: held.Warnings,
	}
	r.addLevels(q, held, notes, at)
	for _, row := range view.Tenants {
		q.Tenants = append(q.Tenants, tenantOf(row))
	}
	if err := addAges(ctx, source, q, max(agesAsked/queues, 1)); err != nil {
		return nil, err
	}
	return q, r.addDead(ctx, source, q, at)
}

// sampleOf puts together what a queue holds and what was delivered.
func sampleOf(held *api.QueueStatus, def config.Queue, source Source, notes *page, at time.Time) trend.Sample {
	s := trend.Sample{At: at, Total: held.KeysTotal, Waiting: held.Waiting, Got: notes.tenants, Others: notes.others}
	for _, k := range held.Keys {
		weight := k.Weight
		if weight <= 0 {
			weight = 1
		}
		s.Tenants = append(s.Tenants, trend.Tenant{Key: k.Key, Waiting: k.Waiting, InFlight: k.InFlight, Weight: weight, Paused: k.Paused})
	}
	for key, got := range s.Got { // one by one; each is set apart from the others
		if weight, set := source.Weight(def, key); set {
			got.Weight = weight
			s.Got[key] = got
		}
	}
	return s
}

func tenantOf(r trend.Row) api.TenantOverview {
	return api.TenantOverview{
		Key: r.Key, Noisy: r.Noisy, Paused: r.Paused, Waiting: r.Waiting, InFlight: r.InFlight, Weight: r.Weight, PerSecond: r.PerSecond,
		Share: r.Share, Fair: r.Fair, WaitedSeconds: r.Got.Mean().Seconds(), LongestSeconds: r.Got.Longest.Seconds(), OldestAgeSeconds: -1,
	}
}

func classOf(c trend.Class) api.TenantsOverview {
	return api.TenantsOverview{
		Tenants: c.Tenants, Waiting: c.Waiting, Deliveries: c.Got.Deliveries, PerSecond: c.PerSecond, Share: c.Share, Fair: c.Fair,
		WaitedSeconds: c.Got.Mean().Seconds(), LongestSeconds: c.Got.Longest.Seconds(), OldestAgeSeconds: -1,
	}
}

// addLevels adds the levels with their rates.
func (r *reel) addLevels(q *api.QueueOverview, held *api.QueueStatus, notes *page, at time.Time) {
	r.levels = append(r.levels, rate{at, notes.levels})
	for len(r.levels) > 2 && at.Sub(r.levels[1].at) >= trend.Window {
		r.levels = r.levels[1:]
	}
	window := at.Sub(r.levels[0].at).Seconds()
	sums := map[int]uint64{}
	for _, one := range r.levels[1:] {
		for level, n := range one.counts { // sums do not depend on the order
			sums[level] += n
		}
	}
	q.LevelStats = make([]api.LevelOverview, 0, len(held.LevelStats))
	for _, l := range held.LevelStats {
		one := api.LevelOverview{LevelStat: l}
		if window > 0 {
			one.DeliveredPerSecond = float64(sums[l.Priority]) / window
		}
		q.LevelStats = append(q.LevelStats, one)
	}
}

// addAges looks at the oldest message of up to most listed tenants, from both ends of the list: those with the most waiting,
// and those with the least.
func addAges(ctx context.Context, source Source, q *api.QueueOverview, most int) error {
	var keys []string
	n := len(q.Tenants)
	for i := 0; i < n && len(keys) < most; i++ {
		at := i / 2
		if i%2 == 1 {
			at = n - 1 - i/2
		}
		if t := &q.Tenants[at]; t.Waiting+t.InFlight > 0 {
			keys = append(keys, t.Key)
		}
	}
	ages, err := source.Oldest(ctx, q.Name, keys)
	if err != nil {
		return err
	}
	for i := range q.Tenants {
		t := &q.Tenants[i]
		age, ok := ages[t.Key]
		if !ok {
			continue
		}
		t.OldestAgeSeconds = age.Seconds()
		class := &q.Quiet
		if t.Noisy {
			class = &q.Noisy
		}
		class.OldestAgeSeconds = max(class.OldestAgeSeconds, t.OldestAgeSeconds)
	}
	return nil
}

// addDead adds the latest dead letters. They are read again when their number has changed.
func (r *reel) addDead(ctx context.Context, source Source, q *api.QueueOverview, at time.Time) error {
	if q.Dead != r.dead && at.Sub(r.read) >= deadRefresh {
		latest, err := source.Latest(ctx, q.Name, deadShown)
		if err != nil {
			return err
		}
		r.dead, r.read, r.latest = q.Dead, at, latest
	}
	q.Latest = r.latest
	if q.Latest == nil {
		q.Latest = []api.DeadLetter{}
	}
	return nil
}
