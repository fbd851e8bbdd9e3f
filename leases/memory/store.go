package memory

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/leases"
)

// Op is an operation that a fault can befall.
type Op uint8

const (
	Read Op = iota
	Swap
)

// Fault is what befalls one operation. The zero Fault is none.
type Fault struct {
	Before time.Duration // until it is carried out, also when nobody waits any more
	After  time.Duration // until the answer arrives

	Lost       bool // it is never carried out, and there is no answer
	Unanswered bool // it is carried out, and there is no answer
	Refused    bool // it is not carried out: the answer is [leases.ErrUnavailable]
	Conflict   bool // it is not carried out: the answer is [leases.ErrConflict] although nothing has changed
	Denied     bool // it is carried out, and the answer is [leases.ErrConflict]
	Stale      int  // a read shows the record as it was so many versions ago
}

// Faults decides what befalls a client. Functions that are nil cause no faults; they are called from several goroutines.
type Faults struct {
	// Op is called for every operation.
	Op func(Op) Fault
	// Silent says that the watch shows nothing now, though it seems to work. What it would have shown is lost; one that is
	// opened later shows the present record.
	Silent func() bool
	// Lag is how long the watch takes to show a change.
	Lag func() time.Duration
}

// Open returns a client's view of a record.
func (b *Bucket) Open(key string, faults Faults) *Store {
	if faults.Op == nil {
		faults.Op = func(Op) Fault { return Fault{} }
	}
	if faults.Silent == nil {
		faults.Silent = func() bool { return false }
	}
	if faults.Lag == nil {
		faults.Lag = func() time.Duration { return 0 }
	}
	return &Store{bucket: b, key: key, faults: faults}
}

// Store is one client's view of one record. It is safe for several goroutines.
type Store struct {
	bucket *Bucket
	key    string
	faults Faults
}

// Read implements [leases.Store].
func (s *Store) Read(ctx context.Context) (leases.Value, error) {
	f := s.faults.Op(Read)
	var (
		v   leases.Value
		err error
	)
	if waitErr := s.perform(ctx, f, func() { v, err = s.bucket.read(s.key, f.Stale) }); waitErr != nil {
		return leases.Value{}, waitErr
	}
	return v, err
}

// Swap implements [leases.Store].
func (s *Store) Swap(ctx context.Context, data []byte, revision uint64) (uint64, error) {
	f := s.faults.Op(Swap)
	if f.Conflict {
		if err := sleep(ctx, f.Before+f.After); err != nil {
			return 0, err
		}
		return 0, leases.ErrConflict
	}
	var (
		stored uint64
		err    error
	)
	if waitErr := s.perform(ctx, f, func() { stored, err = s.bucket.swap(s.key, data, revision) }); waitErr != nil {
		return 0, waitErr
	}
	if f.Denied && err == nil {
		return 0, leases.ErrConflict
	}
	return stored, err
}

// perform carries an operation out, between its delays. When it returns nil, op was called and will not be again.
func (s *Store) perform(ctx context.Context, f Fault, op func()) error {
	switch {
	case f.Lost:
		<-ctx.Done()
		return ctx.Err()
	case f.Refused:
		if err := sleep(ctx, f.Before+f.After); err != nil {
			return err
		}
		return leases.ErrUnavailable
	}
	began := time.Now()
	if err := sleep(ctx, f.Before); err != nil {
		if f.Before > 0 {
			// What is under way arrives all the same.
			time.AfterFunc(max(0, f.Before-time.Since(began)), op)
		}
		return err
	}
	op()
	if f.Unanswered {
		<-ctx.Done()
		return ctx.Err()
	}
	return sleep(ctx, f.After)
}

// Watch implements [leases.Store].
func (s *Store) Watch(ctx context.Context, see func(leases.Value)) error {
	revision := uint64(0)
	for first := true; ; first = false {
		if first {
			now, err := s.bucket.read(s.key, 0)
			if err != nil {
				return err
			}
			if now.Revision > 0 && !s.faults.Silent() {
				see(now)
			}
			revision = now.Revision
		}
		next, changed, err := s.bucket.after(s.key, revision)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case next.Revision > 0:
			revision = next.Revision
			if err := sleep(ctx, s.faults.Lag()); err != nil {
				return err
			}
			if !s.faults.Silent() {
				see(next)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
