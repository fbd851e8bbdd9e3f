package socket

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/fairlead/fairlead/agent/api"
)

// firstBuffer is the most that is allocated for a body before its bytes are there.
const firstBuffer = 64 << 10

// body is a request's body in memory. Release gives its place in the budget back.
type body struct {
	data []byte
	held int64
	from *budget
}

func (b *body) release() {
	b.from.give(b.held)
	b.held = 0
}

// grow makes room for n more bytes.
func (b *body) grow(n int) error {
	if cap(b.data)-len(b.data) >= n {
		return nil
	}
	size := len(b.data) + n
	if !b.from.take(int64(size) - b.held) {
		return &api.Error{Code: api.CodeOverloaded, Message: "too many large requests at the same time: try again"}
	}
	b.held = int64(size)
	grown := make([]byte, len(b.data), size)
	copy(grown, b.data)
	b.data = grown
	return nil
}

// readBody reads the whole body, if it has at most limit bytes; otherwise it answers with tooLarge. The caller releases
// what it gets, also with an error.
func (x *exchange) readBody(limit int64, tooLarge func() *api.Error) (*body, error) {
	b := &body{from: &x.bodies}
	if x.r.Body == http.NoBody || x.r.ContentLength == 0 {
		return b, nil
	}
	if x.r.ContentLength > limit {
		return b, tooLarge()
	}
	next := firstBuffer
	if n := x.r.ContentLength; n > 0 && n < firstBuffer {
		next = int(n)
	} else if n < 0 {
		next = 4 << 10
	}
	for {
		if err := b.grow(next); err != nil {
			return b, err
		}
		x.awaitBody()
		n, err := x.r.Body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > limit {
			return b, tooLarge()
		}
		if errors.Is(err, io.EOF) {
			x.bodyDone()
			return b, nil
		}
		if err != nil {
			x.heard = true
			return b, bodyError(err, x.limits)
		}
		if len(b.data) == cap(b.data) {
			next = x.nextSize(len(b.data), limit)
		} else {
			next = 1
		}
	}
}

// nextSize returns how much more to make room for: as much as has arrived, but no more than can come.
func (x *exchange) nextSize(have int, limit int64) int {
	most := limit + 1 - int64(have) // one byte over the limit shows that it is passed
	if x.r.ContentLength > 0 {
		most = x.r.ContentLength - int64(have)
	}
	return int(max(min(int64(have), most), 1))
}

// bodyError tells why a body could not be read.
func bodyError(err error, l Limits) error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badRequest("no byte of the body came for %v: send it without pauses", l.BodyTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return badRequest("the body ended before its Content-Length")
	}
	return badRequest("the body cannot be read: %.200s", err.Error())
}

// noBody reads past the body of a call that takes none.
func (x *exchange) noBody() error {
	b, err := x.readBody(4<<10, func() *api.Error { return badRequest("this call takes no body") })
	b.release()
	return err
}
