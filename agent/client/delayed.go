package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fairlead/fairlead/agent/api"
)

// Delayed returns delayed messages of a queue, the next to come first, at most limit of them; 0 leaves the number to the agent.
// Only the admin socket knows this call.
func (c *Client) Delayed(ctx context.Context, queue string, limit int) (*api.DelayedList, error) {
	path := queuePath(queue) + "/delayed"
	if limit > 0 {
		path += "?max=" + strconv.Itoa(limit)
	}
	out := &api.DelayedList{}
	if err := c.get(ctx, path, out); err != nil {
		return nil, err
	}
	return out, nil
}

// CancelDelayed removes a delayed message by the handle that its publish was answered with. An *api.Error with
// unknown_handle means that it is in its queue by now, or about to be, or was cancelled before. Only the admin socket knows
// this call.
func (c *Client) CancelDelayed(ctx context.Context, queue, handle string) error {
	res, err := c.do(ctx, request{method: http.MethodDelete, path: queuePath(queue) + "/delayed/" + url.PathEscape(handle)})
	if err != nil {
		return err
	}
	closeBody(res)
	return nil
}
