package tracing

import "errors"

// ErrEnvironment is when variables of the environment ask for traces in a way that cannot be. No span is made.
var ErrEnvironment = errors.New("tracing: the environment cannot be used")
