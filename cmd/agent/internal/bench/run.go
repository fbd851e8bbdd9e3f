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
	done, total int
}

// Run measures everything and removes what it made on the server, also when it fails.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &bench{Options: o}
	b.total = o.Rounds*len(o.Connections)*(1+len(layouts)) + len(o.Waiting)
	if o.Singles > 0 {
		b.total++
	}
	report := &Report{Messages: o.Messages, Bytes: payloadSize, Pull: o.Pull, Rounds: o.Rounds}
	rows, err := b.rows(ctx)
	if err != nil {
		return nil, err
	}
	report.Rows = rows
	if o.Singles > 0 {
		if report.Delivery, err = b.delivery(ctx); err != nil {
			return nil, err
		}
	}
	for _, waiting := range o.Waiting {
		times, err := b.takes(ctx, waiting)
		if err != nil {
			return nil, err
		}
		report.Takes = append(report.Takes, Takes{Waiting: waiting, Times: times})
	}
	b.step("done")
	return report, nil
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
	rows := make([]Row, 1+len(layouts))
	for i := range rows {
		rows[i].Name = bareName
		if i > 0 {
			rows[i].Name = layouts[i-1].name
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
	err := b.withAgent(ctx, layouts[i-1], func(ctx context.Context, socket string) error {
		if err := b.publish(ctx, socket, layouts[i-1], b.Messages); err != nil {
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
