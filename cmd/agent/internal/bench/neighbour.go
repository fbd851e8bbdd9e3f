package bench

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"
)

// NeighbourOptions describe a flood, and who is beside it. A worker that can do Slots pieces of work at a time, each of which
// takes Work, is slower than the flood on purpose: it is about who waits.
type NeighbourOptions struct {
	Flood  int           // messages of the noisy tenant, published before the others begin
	Quiet  int           // quiet tenants
	Every  time.Duration // each of them publishes one message in this time
	During time.Duration // and does so for this long
	Work   time.Duration // of one piece
	Slots  int           // pieces at a time
}

func (o *NeighbourOptions) check(check func(ok bool, format string, args ...any)) {
	check(o.Flood >= 1, "flood: %d: 1 or more", o.Flood)
	check(o.Quiet >= 1 && o.Quiet <= 1000, "quiet tenants: %d: 1 to 1000", o.Quiet)
	check(o.Every > 0 && o.During >= o.Every, "quiet tenants publish every %v for %v: at least once", o.Every, o.During)
	check(o.Work > 0 && o.Slots >= 1, "work: %v in %d slots: both above 0", o.Work, o.Slots)
}

// messages is how many the quiet tenants publish together.
func (o *NeighbourOptions) messages() int { return int(o.During/o.Every) * o.Quiet }

// Neighbour is what a noisy neighbour does to quiet tenants.
type Neighbour struct {
	Flood    int      `json:"flood"`
	Quiet    int      `json:"quiet_tenants"`
	EveryMS  float64  `json:"quiet_every_ms"` // a message of each of them
	DuringMS float64  `json:"during_ms"`
	WorkMS   float64  `json:"work_ms"`
	Slots    int      `json:"slots"`
	Systems  []System `json:"systems"`
}

// System is one way to read the queue. Its figures are the medians of its rounds.
type System struct {
	Name string  `json:"name"`
	P50  float64 `json:"quiet_wait_p50_us"` // from publish to the worker, messages of quiet tenants
	P99  float64 `json:"quiet_wait_p99_us"`
	// Served is how much of what the quiet tenants published had reached the worker when they stopped publishing, and
	// QuietShare how much of all that it had got since they began was theirs.
	Served     float64 `json:"quiet_served"`
	QuietShare float64 `json:"quiet_share"`
	// Overtaken is the most messages of the noisy tenant that the worker was given while a message of a quiet tenant waited and
	// was that tenant's first. Other than the rest it does not depend on how fast the machine is.
	Overtaken float64          `json:"quiet_overtaken_by_noisy"`
	All       []NeighbourRound `json:"all"`
}

// NeighbourRound is one round of a system. The shares are of the time in which the quiet tenants published.
type NeighbourRound struct {
	Quiet     Times `json:"quiet_wait"`
	Published int   `json:"quiet_published"`
	Delivered int   `json:"quiet_delivered"`
	Noisy     int   `json:"noisy_delivered"`
	Overtaken int   `json:"quiet_overtaken_by_noisy"` // see System
}

const plainName = "one plain consumer"

// neighbour measures both systems, round by round.
func (b *bench) neighbour(ctx context.Context, r *Report) error {
	if !b.runs(noisyNeighbour) {
		return nil
	}
	o := &b.Neighbour
	systems := []System{{Name: plainName}, {Name: "Fairlead"}}
	for round := range b.Rounds {
		for i, measure := range []func(context.Context) (NeighbourRound, error){b.besidePlain, b.besideFairlead} {
			b.step("a noisy neighbour, %s, round %d", systems[i].Name, round+1)
			got, err := measure(ctx)
			if err != nil {
				return fmt.Errorf("a noisy neighbour, %s: %w", systems[i].Name, err)
			}
			systems[i].All = append(systems[i].All, got)
		}
	}
	for i := range systems {
		systems[i].sum()
	}
	r.Neighbour = &Neighbour{
		Flood: o.Flood, Quiet: o.Quiet, EveryMS: millis(o.Every), DuringMS: millis(o.During), WorkMS: millis(o.Work), Slots: o.Slots,
		Systems: systems,
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sum fills in the medians.
func (s *System) sum() {
	var p50, p99, served, share, overtaken []float64
	for _, r := range s.All {
		p50, p99 = append(p50, r.Quiet.P50), append(p99, r.Quiet.P99)
		served = append(served, float64(r.Delivered)/float64(r.Published))
		share = append(share, float64(r.Delivered)/float64(max(r.Delivered+r.Noisy, 1)))
		overtaken = append(overtaken, float64(r.Overtaken))
	}
	s.P50, s.P99, s.Served, s.QuietShare = median(p50), median(p99), median(served), median(share)
	s.Overtaken = median(overtaken)
}

// way is one way through a queue.
type way struct {
	publish func(ctx context.Context, key string, data []byte) error
	// take returns the payloads of up to n messages, at least one, and finishes those of the take before. It may return what
	// it has got until the next call only.
	take func(ctx context.Context, n int) ([][]byte, error)
	// settle finishes the last ones.
	settle func(ctx context.Context) error
}

// A payload of this profile begins with a tenant's name, the number of its message, and when it was published, in
// nanoseconds since the round began; noisyName is the tenant that floods.
const noisyName = "noisy"

// stamp writes a payload.
func stamp(key string, number int, at time.Duration) []byte {
	data := fmt.Appendf(make([]byte, 0, payloadSize), "%s %d %d ", key, number, int64(at))
	return append(data, bytes.Repeat([]byte("x"), max(payloadSize-len(data), 0))...)
}

// arrival is a message that the worker has got. Its times are since the round began.
type arrival struct {
	messageID
	published time.Duration // when its publication began
	asked     time.Duration // when the worker asked for the lot that it came in
	at        time.Duration // when it had that
}

type messageID struct {
	key    string
	number int
}

// published is what the quiet tenants have done.
type published struct {
	stored map[messageID]time.Duration // when each message was, as the publisher was told
	end    time.Duration
	err    error
}

// unstamp reads a payload.
func unstamp(data []byte) (a arrival, err error) {
	fields := bytes.SplitN(data, []byte(" "), 4)
	if len(fields) != 4 {
		return a, fmt.Errorf("%w: a message that nobody published", ErrCount)
	}
	at, err := strconv.ParseInt(string(fields[2]), 10, 64)
	if err == nil {
		a.number, err = strconv.Atoi(string(fields[1]))
	}
	if err != nil {
		return a, fmt.Errorf("%w: a message that nobody published: %w", ErrCount, err)
	}
	a.key, a.published = string(fields[0]), time.Duration(at)
	return a, nil
}

// beside runs one round: the flood is there, the worker works, and the quiet tenants publish.
func (b *bench) beside(ctx context.Context, w *way) (NeighbourRound, error) {
	o := &b.Neighbour
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan published, 1)
	go func() {
		p := o.quietly(ctx, w, begin)
		if p.err != nil {
			cancel() // the worker would wait for what does not come
		}
		done <- p
	}()
	arrivals, err := o.work(ctx, w, begin)
	if err != nil {
		cancel()
	}
	p := <-done
	switch {
	case p.err != nil:
		return NeighbourRound{}, p.err
	case err != nil:
		return NeighbourRound{}, err
	}
	return o.judge(arrivals, p)
}

// quietly publishes the messages of the quiet tenants, one after the other, evenly spread.
func (o *NeighbourOptions) quietly(ctx context.Context, w *way, begin time.Time) (p published) {
	p.stored = make(map[messageID]time.Duration, o.messages())
	defer func() { p.end = time.Since(begin) }()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for i := range o.messages() {
		pause.Reset(time.Until(begin.Add(o.Every * time.Duration(i) / time.Duration(o.Quiet))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			p.err = ctx.Err()
			return p
		}
		m := messageID{tenant(i % o.Quiet), i / o.Quiet}
		if p.err = w.publish(ctx, m.key, stamp(m.key, m.number, time.Since(begin))); p.err != nil {
			return p
		}
		p.stored[m] = time.Since(begin)
	}
	return p
}

// work takes and finishes everything, with a pause for the work of each lot.
func (o *NeighbourOptions) work(ctx context.Context, w *way, begin time.Time) ([]arrival, error) {
	all := o.Flood + o.messages()
	arrivals := make([]arrival, 0, all)
	for len(arrivals) < all {
		asked := time.Since(begin)
		lot, err := w.take(ctx, min(o.Slots, all-len(arrivals)))
		if err != nil {
			return nil, err
		}
		at := time.Since(begin)
		for _, data := range lot {
			a, err := unstamp(data)
			if err != nil {
				return nil, err
			}
			a.asked, a.at = asked, at
			arrivals = append(arrivals, a)
		}
		time.Sleep(o.Work) // this is the work
	}
	return arrivals, w.settle(ctx)
}

// judge sums up a round.
func (o *NeighbourOptions) judge(arrivals []arrival, p published) (NeighbourRound, error) {
	seen := map[messageID]bool{}
	r := NeighbourRound{Published: o.messages(), Overtaken: overtaken(arrivals, p.stored)}
	var waits []time.Duration
	for _, a := range arrivals {
		seen[a.messageID] = true
		quiet := a.key != noisyName
		if quiet {
			waits = append(waits, a.at-a.published)
		}
		switch {
		case a.at > p.end:
		case quiet:
			r.Delivered++
		default:
			r.Noisy++
		}
	}
	if len(seen) != o.Flood+r.Published || len(waits) != r.Published {
		return r, fmt.Errorf("%w: %d different messages, %d of quiet tenants; published were %d and %d",
			ErrCount, len(seen), len(waits), o.Flood+r.Published, r.Published)
	}
	r.Quiet = percentiles(waits)
	return r, nil
}

// overtaken is how many messages of the noisy tenant came, at most, while one of a quiet tenant was stored and the first of its
// tenant. Those that the worker had asked for before that do not count. arrivals are in the order in which the worker got them.
func overtaken(arrivals []arrival, stored map[messageID]time.Duration) (most int) {
	noisy := make([]int, len(arrivals)+1) // before each arrival
	last := map[string]time.Duration{}    // when the worker had the tenant's message before
	for i, a := range arrivals {
		noisy[i+1] = noisy[i]
		if a.key == noisyName {
			noisy[i+1]++
			continue
		}
		first := max(stored[a.messageID], last[a.key])
		last[a.key] = a.at
		from := sort.Search(i, func(j int) bool { return arrivals[j].asked >= first })
		most = max(most, noisy[i]-noisy[from])
	}
	return most
}
