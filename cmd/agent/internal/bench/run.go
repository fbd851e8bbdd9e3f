package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// bench is one run.
type bench struct {
	Options
	chosen      []layout // for the rows
	done, total int
}

// Run measures everything and removes what it made on the server, also when it fails.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &bench{Options: o, chosen: o.layouts()}
	b.total = b.steps()
	report := newReport(&o)
	before := loadAverage()
	for _, part := range []func(context.Context, *Report) error{b.throughput, b.latency, b.neighbour, b.agents} {
		if err := part(ctx, report); err != nil {
			return nil, err
		}
	}
	b.step("done")
	report.Machine.LoadBefore, report.Machine.LoadAfter = before, loadAverage()
	return report, nil
}

// steps is how often step will be called, but for the last.
func (b *bench) steps() int {
	n := 0
	if len(b.chosen) > 0 {
		n += b.Rounds * len(b.Connections) * (1 + len(b.chosen))
	}
	if b.runs(latency) {
		n += len(b.Waiting)
		if b.Singles > 0 {
			n++
		}
	}
	if b.runs(noisyNeighbour) {
		n += b.Rounds * 2
	}
	if b.runs(manyAgents) {
		n += b.Rounds * len(b.Agents)
	}
	return n
}

// throughput fills the rows of the report.
func (b *bench) throughput(ctx context.Context, r *Report) (err error) {
	if len(b.chosen) > 0 {
		r.Rows, err = b.rows(ctx)
	}
	return err
}

// latency fills in what single messages take.
func (b *bench) latency(ctx context.Context, r *Report) error {
	if !b.runs(latency) {
		return nil
	}
	if b.Singles > 0 {
		times, err := b.delivery(ctx)
		if err != nil {
			return err
		}
		r.Delivery, r.DeliveryParts = percentiles(times), partMedians(times)
	}
	for _, waiting := range b.Waiting {
		times, err := b.takes(ctx, waiting)
		if err != nil {
			return err
		}
		r.Takes = append(r.Takes, Takes{Waiting: waiting, Times: times})
	}
	return nil
}

// step tells the progress.
func (b *bench) step(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(b.done, b.total, fmt.Sprintf(format, args...))
	}
	b.done++
}

// rows runs every row with every number of connections, round by round.
func (b *bench) rows(ctx context.Context) ([]Row, error) {
	rows := make([]Row, 1+len(b.chosen))
	for i := range rows {
		rows[i].Name = bareName
		if i > 0 {
			rows[i].Name = b.chosen[i-1].name
		}
		for _, n := range b.Connections {
			rows[i].Cells = append(rows[i].Cells, Cell{Connections: n})
		}
	}
	for round := range b.Rounds {
		for c, n := range b.Connections {
			for i := range rows {
				b.step("%s, %d connections, round %d", rows[i].Name, n, round+1)
				rate, err := b.row(ctx, i, n)
				if err != nil {
					return nil, fmt.Errorf("%s with %d connections: %w", rows[i].Name, n, err)
				}
				rows[i].Cells[c].All = append(rows[i].Cells[c].All, rate)
			}
		}
	}
	for i := range rows {
		for c := range rows[i].Cells {
			cell := &rows[i].Cells[c]
			cell.PerSecond = median(cell.All)
			cell.OfBare = cell.PerSecond / rows[0].Cells[c].PerSecond
		}
	}
	return rows, nil
}

func (b *bench) row(ctx context.Context, i, connections int) (float64, error) {
	if i == 0 {
		return b.bare(ctx, connections)
	}
	var rate float64
	err := b.withAgent(ctx, b.chosen[i-1], func(ctx context.Context, socket string) error {
		if err := b.publish(ctx, socket, b.chosen[i-1], b.Messages); err != nil {
			return err
		}
		var err error
		rate, err = b.drainQueue(ctx, socket, connections)
		return err
	})
	return rate, err
}

// newPrefix returns a name that nothing else on a server has.
func newPrefix() string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return "bench-" + hex.EncodeToString(random[:])
}

// together runs n calls at a time and returns how long all of them took.
func together(n int, call func(i int) error) (time.Duration, error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range n {
		all.Go(func() { errs[i] = call(i) })
	}
	all.Wait()
	return time.Since(begin), errors.Join(errs...)
}
