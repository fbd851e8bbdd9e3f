package socket

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// notRead says why a JSON text could not be read, in the words of its sender: the decoder's own name the types of this program.
func notRead(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%.64s cannot be a JSON %.32s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Sprintf("a JSON %.32s is not expected here", kind.Value)
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return fmt.Sprintf("%.200s", strings.TrimPrefix(err.Error(), "json: "))
}
