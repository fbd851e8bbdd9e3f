package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Sync returns when the mirror shows everything that was written before the call. Calls that come while a write is on its
// way share the next one.
func (b *Bucket) Sync(ctx context.Context) error {
	b.mu.Lock()
	select {
	case <-b.ended:
		b.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrUnusable, wire.ErrClosed)
	default:
	}
	p := b.probe
	if p == nil {
		p = &probe{done: make(chan struct{})}
		b.probe = p
		if !b.probing {
			b.probing = true
			b.probes.Go(b.runProbes)
		}
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe is one write to find out how far the watch has come, and all that wait for it.
type probe struct {
	done chan struct{}
	err  error
}

// runProbes writes one probe after the other, as long as somebody waits for one.
func (b *Bucket) runProbes() {
	for {
		b.mu.Lock()
		p := b.probe
		b.probe = nil
		if p == nil {
			b.probing = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		p.err = b.catchUp()
		close(p.done)
	}
}

// catchUp writes a record and waits until the watch has shown it.
func (b *Bucket) catchUp() error {
	type result struct {
		revision uint64
		err      error
	}
	written := make(chan result, 1)
	b.Put(names.SyncKey, nil, func(revision uint64, err error) { written <- result{revision, err} })
	var r result
	select {
	case r = <-written:
	case <-b.ended:
		return fmt.Errorf("%w: %w", ErrUnusable, wire.ErrClosed)
	}
	switch {
	case errors.Is(r.err, ErrUnusable):
		return r.err
	case r.err != nil:
		return fmt.Errorf("%w: %w", ErrUnusable, r.err)
	}
	late := time.NewTimer(watchLimit)
	defer late.Stop()
	for {
		b.mu.Lock()
		seen, moved := b.seen, b.moved
		b.mu.Unlock()
		if seen >= r.revision {
			return nil
		}
		select {
		case <-moved:
		case <-b.ended:
			return fmt.Errorf("%w: %w", ErrUnusable, wire.ErrClosed)
		case <-late.C:
			b.log.Info("the watch on the coordination bucket is behind; opening it again")
			b.reopen()
			return fmt.Errorf("%w: the watch is behind", ErrUnusable)
		}
	}
}
