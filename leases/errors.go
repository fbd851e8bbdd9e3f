package leases

import "errors"

// What a [Store] reports. Any other error of a write means that its outcome is unknown.
var (
	// ErrConflict says that the record was not at the expected revision. Because stores have been seen to say so of a write
	// that was carried out, nothing is concluded from it: the record is read again.
	ErrConflict = errors.New("leases: the record has changed")
	// ErrUnavailable says that the store could not be used. Nothing was written.
	ErrUnavailable = errors.New("leases: the store is not available")
	// ErrGone says that the bucket does not exist. No lease can be held until it is made again.
	ErrGone = errors.New("leases: the bucket is gone")
)

// Why nobody here can hold the lease although it is wanted: see [Machine.Problem].
var (
	// ErrLowRevision says that the bucket's revisions do not start from the clock, so that they could come again and cannot
	// be fences. A bucket that was made by hand is like that. Nothing is held until it was made anew.
	ErrLowRevision = errors.New("leases: the bucket's revisions start too low to be fences (it was made by hand): delete it and let it be made anew")
	// ErrFellBack says that revisions are lower than fences that were seen before: the bucket was made anew after the
	// server's clock was set back, or restored from a copy. Nothing is held until it was made anew.
	ErrFellBack = errors.New("leases: the bucket's revisions are lower than earlier fences (made anew by a clock that was set back, or restored): delete it and let it be made anew")
)

// What a [Runner] reports.
var (
	// ErrInvalid says that a configuration cannot be used; its text names each field.
	ErrInvalid = errors.New("leases: invalid configuration")
	// ErrNotReleased says that the runner stopped before the release was confirmed. The tenure is over here; others may have
	// to wait for the TTL.
	ErrNotReleased = errors.New("leases: stopped without a confirmed release")
	// ErrRecord says that a value is not a lease's record.
	ErrRecord = errors.New("leases: unreadable record")
)
