package bench

import (
	"bytes"
	"context"
	"fmt"
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
	Served     float64          `json:"quiet_served"`
	QuietShare float64          `json:"quiet_share"`
	All        []NeighbourRound `json:"all"`
}

// NeighbourRound is one round of a system. The shares are of the time in which the quiet tenants published.
type NeighbourRound struct {
	Quiet     Times `json:"quiet_wait"`
	Published int   `json:"quiet_published"`
	Delivered int   `json:"quiet_delivered"`
	Noisy     int   `json:"noisy_delivered"`
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
	var p50, p99, served, share []float64
	for _, r := range s.All {
		p50, p99 = append(p50, r.Quiet.P50), append(p99, r.Quiet.P99)
		served = append(served, float64(r.Delivered)/float64(r.Published))
		share = append(share, float64(r.Delivered)/float64(max(r.Delivered+r.Noisy, 1)))
	}
	s.P50, s.P99, s.Served, s.QuietShare = median(p50), median(p99), median(served), median(share)
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

// arrival is a message that the worker has got.
type arrival struct {
	key       string
	number    int
	published time.Duration
	at        time.Duration
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
	type published struct {
		end time.Duration
		err error
	}
	done := make(chan published, 1)
	go func() {
		err := o.quietly(ctx, w, begin)
		if err != nil {
			cancel() // the worker would wait for what does not come
		}
		done <- published{time.Since(begin), err}
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
	return o.judge(arrivals, p.end)
}

// quietly publishes the messages of the quiet tenants, one after the other, evenly spread.
func (o *NeighbourOptions) quietly(ctx context.Context, w *way, begin time.Time) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for i := range o.messages() {
		pause.Reset(time.Until(begin.Add(o.Every * time.Duration(i) / time.Duration(o.Quiet))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		key := tenant(i % o.Quiet)
		if err := w.publish(ctx, key, stamp(key, i/o.Quiet, time.Since(begin))); err != nil {
			return err
		}
	}
	return nil
}

// work takes and finishes everything, with a pause for the work of each lot.
func (o *NeighbourOptions) work(ctx context.Context, w *way, begin time.Time) ([]arrival, error) {
	all := o.Flood + o.messages()
	arrivals := make([]arrival, 0, all)
	for len(arrivals) < all {
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
			a.at = at
			arrivals = append(arrivals, a)
		}
		time.Sleep(o.Work) // this is the work
	}
	return arrivals, w.settle(ctx)
}

// judge sums up a round in which the quiet tenants had published everything at end.
func (o *NeighbourOptions) judge(arrivals []arrival, end time.Duration) (NeighbourRound, error) {
	type id struct {
		key    string
		number int
	}
	seen := map[id]bool{}
	r := NeighbourRound{Published: o.messages()}
	var waits []time.Duration
	for _, a := range arrivals {
		seen[id{a.key, a.number}] = true
		quiet := a.key != noisyName
		if quiet {
			waits = append(waits, a.at-a.published)
		}
		switch {
		case a.at > end:
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
