package broker

import (
	"context"
	"fmt"
	"strings"
)

// serial purges a queue whose lanes hand out one message at a time, and of which nothing is taken meanwhile.
func (w *purger) serial(ctx context.Context) error {
	out, err := w.out(ctx)
	if err != nil {
		return err
	}
	prefix := w.c.names.subjectPrefix(w.layout.Queue)
	wanted := func(subject string) bool {
		class, token, ok := splitAddress(strings.TrimPrefix(subject, prefix))
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
// since it was handed out last is not.
func (w *purger) out(ctx context.Context) (map[uint64]bool, error) {
	out, tenure := map[uint64]bool{}, uint64(0)
	stream := w.c.names.Stream(w.layout.Queue)
	for offset, more := 0, true; more; {
		page, err := w.c.consumers(ctx, stream, offset)
		if err != nil {
			return nil, fmt.Errorf("broker: lanes of %s: %w", w.layout.Queue, translate(err))
		}
		for _, info := range page.Consumers {
			_, fence, ok := w.c.names.laneAddress(w.layout, info.Name)
			if !ok || fence < tenure {
				continue
			}
			if fence > tenure {
				clear(out)
				tenure = fence
			}
			seq := info.Delivered.Stream
			r, returned := w.c.attempts.lookup(w.layout.Queue, seq)
			if info.Pending > 0 && !(returned && r.Fence == fence && r.Sequence >= info.Delivered.Consumer) {
				out[seq] = true
			}
		}
		offset, more = page.next(offset)
	}
	return out, nil
}
