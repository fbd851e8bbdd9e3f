package config

import "errors"

// ErrDefinition is wrapped by Queue.UnmarshalJSON when the JSON is not a
// usable queue definition. The queue is left as it was.
var ErrDefinition = errors.New("config: not a usable queue definition")
