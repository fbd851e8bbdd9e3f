package leases

import "context"

// Store is one record that can be compared and set, in something shared by all candidates. It is safe for several
// goroutines. It must be linearizable: what Swap was told to have written is what any later Read returns, until it is
// replaced. (A stale Read or Watch costs time, never safety: claims are decided by Swap.)
//
// An error that is [ErrConflict], [ErrUnavailable] or [ErrGone] means what it says; after any other the write may have been
// carried out, or may be later. All calls return soon after ctx has ended.
type Store interface {
	// Read returns the value and its revision as the store's leader has them. Without a record the value is empty; the
	// revision is then that of the mark of its deletion, or 0.
	Read(ctx context.Context) (Value, error)
	// Swap writes a value if the revision is still the given one (0: if there is nothing), and returns the new revision,
	// which is higher than all before. Creating, renewing and releasing are all swaps: every write of a lease depends on
	// what was there, so there is no other kind.
	Swap(ctx context.Context, value []byte, revision uint64) (uint64, error)
	// Watch calls see with the present value, if there is one, and with every later one, in order, until ctx ends or the
	// watch breaks; it says why. Values may be skipped in favour of later ones. see does not block.
	Watch(ctx context.Context, see func(Value)) error
}

// Value is what is stored at a revision. Empty data means that there is no record.
type Value struct {
	Revision uint64
	Data     []byte
}
