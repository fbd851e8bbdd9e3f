package socket

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
)

// Delays are the delayed messages of the queues. It is safe for several goroutines. Errors that clients can act on are
// *api.Error.
type Delays interface {
	// Delayed lists up to max delayed messages of a queue, the next to come first.
	Delayed(ctx context.Context, queue string, max int) (*api.DelayedList, error)
	// CancelDelayed removes a delayed message that has not come yet.
	CancelDelayed(ctx context.Context, queue, handle string) error
}

// delayed answers with the delayed messages of a queue.
func (x *exchange) delayed() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	q, err := x.query("max")
	if err != nil {
		return err
	}
	most, err := integer(q, "max", 1, maxPeek, 100)
	if err != nil {
		return err
	}
	v, err := x.Delays.Delayed(x.r.Context(), x.name, most)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// cancelDelayed removes a delayed message.
func (x *exchange) cancelDelayed() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	path := x.r.URL.EscapedPath()
	handle, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	if err != nil {
		return badRequest("the path cannot be read: %v", err)
	}
	// It is done whatever becomes of the client: half a cancel helps nobody.
	if err := x.Delays.CancelDelayed(x.base, x.name, handle); err != nil {
		return err
	}
	x.noContent()
	return nil
}
