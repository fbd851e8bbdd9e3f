package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// serial purges a queue whose lanes hand out one message at a time, and of which nothing is taken meanwhile.
func (w *purger) serial(ctx context.Context) error {
	out, err := w.out(ctx)
	if err != nil {
		return err
	}
	prefix := w.c.names.SubjectPrefix(w.layout.Queue)
	wanted := func(subject string) bool {
		class, token, ok := names.Split(strings.TrimPrefix(subject, prefix))
		if !ok {
			return false
		}
		a, ok := w.layout.Address(class, token)
		return ok && w.wants(a)
	}
	for from := uint64(1); ; {
		found, next, err := w.c.search(ctx, w.layout.Queue, from, wanted)
		if err != nil {
			return err
		}
		var work group
		for _, seq := range found {
			if seq <= w.until && !out[seq] && ctx.Err() == nil && !w.delete(ctx, &work, seq) {
				break
			}
		}
		if err := work.wait(ctx); err != nil || next == 0 || next > w.until || w.more.Load() {
			return err
		}
		from = next
	}
}

// out finds the messages that lanes of the present tenure wait for: those that are in somebody's hands. What was returned
// since it was handed out last is not. A lane whose server is dead cannot say what it waits for, but it waits for its oldest
// message, if for any.
func (w *purger) out(ctx context.Context) (map[uint64]bool, error) {
	reports, err := w.c.laneReports(ctx, w.layout, func(uint64) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("broker: lanes of %s: %w", w.layout.Queue, wire.Translate(err))
	}
	tenure := uint64(0)
	for _, r := range reports {
		tenure = max(tenure, r.fence)
	}
	out := map[uint64]bool{}
	for _, r := range reports {
		switch {
		case r.fence < tenure:
		case r.info == nil:
			seq, err := w.head(ctx, r.address)
			if err != nil {
				return nil, err
			}
			out[seq] = true // 0 is none
		case r.info.Pending > 0:
			seq := r.info.Delivered.Stream
			rec, returned := w.c.attempts.lookup(w.layout.Queue, seq)
			if !returned || rec.Fence != r.fence || rec.Sequence < r.info.Delivered.Consumer {
				out[seq] = true
			}
		}
	}
	return out, nil
}

// head is the oldest message of a lane unless it backs off: then it is in nobody's hands. 0 is none.
func (w *purger) head(ctx context.Context, a Address) (first uint64, err error) {
	lane := newLane(w.c.names, w.layout, a)
	for _, filter := range lane.filters {
		m, err := w.c.wire.Read(ctx, lane.stream, wire.Look{Seq: 1, Filter: filter})
		if err != nil {
			return 0, err
		}
		if m != nil && (first == 0 || m.Seq < first) {
			first = m.Seq
		}
	}
	if rec, ok := w.c.attempts.lookup(w.layout.Queue, first); ok && rec.notBefore().After(time.Now()) {
		return 0, nil
	}
	return first, nil
}
