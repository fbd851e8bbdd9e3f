package demo

import "errors"

var (
	// ErrNotExact is returned when an order is not as promised. The order was printed.
	ErrNotExact = errors.New("demo: the order is not exact")

	// ErrMissing is returned when messages that were stored did not come.
	ErrMissing = errors.New("demo: stored messages did not come")
)
