package payload

import "errors"

var (
	// ErrDamaged says that a payload is marked as compressed and is not, or not whole. Trying again does not help.
	ErrDamaged = errors.New("payload: the compressed payload is damaged")
	// ErrTooLarge says that a compressed payload expands to more than is allowed. Nothing is known of what it says.
	ErrTooLarge = errors.New("payload: the compressed payload expands to too much")
)
