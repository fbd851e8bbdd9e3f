package controls

import "errors"

// ErrInvalid says that what was to be set makes no sense: the key cannot be encoded, or the weight is outside of its
// bounds. Nothing was written.
var ErrInvalid = errors.New("controls: cannot be set")
