package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// Status returns the agent's own state.
func (c *Client) Status(ctx context.Context) (*api.AgentStatus, error) {
	out := &api.AgentStatus{}
	if err := c.get(ctx, "/v1/status", out); err != nil {
		return nil, err
	}
	return out, nil
}

// Overview returns all that the agent has to show, as it was a moment ago: at most half a second, or longer where there is
// much to look at. Rates need two calls: the agent begins to count with the first one, and stops 10 s after the last one.
func (c *Client) Overview(ctx context.Context) (*api.Overview, error) {
	out := &api.Overview{}
	if err := c.get(ctx, "/v1/overview", out); err != nil {
		return nil, err
	}
	return out, nil
}

// Queues returns all queues of the agent.
func (c *Client) Queues(ctx context.Context) (*api.QueueList, error) {
	out := &api.QueueList{}
	if err := c.get(ctx, "/v1/queues", out); err != nil {
		return nil, err
	}
	return out, nil
}

// Queue returns one queue with its levels and its largest keys, at most keys of them; 0 leaves the number to the agent.
func (c *Client) Queue(ctx context.Context, name string, keys int) (*api.QueueStatus, error) {
	path := queuePath(name)
	if keys > 0 {
		path += "?keys=" + strconv.Itoa(keys)
	}
	out := &api.QueueStatus{}
	if err := c.get(ctx, path, out); err != nil {
		return nil, err
	}
	return out, nil
}

// PeekRequest says which waiting messages to look at.
type PeekRequest struct {
	Queue    string
	Max      int     // 0 leaves the number to the agent
	Priority string  // only this level: a number or a name; "" means all
	Key      *string // only this key; nil means all, "" the messages without a key
}

// Peek returns waiting messages without taking them.
func (c *Client) Peek(ctx context.Context, r PeekRequest) (*api.PeekList, error) {
	query := url.Values{}
	if r.Max > 0 {
		query.Set("max", strconv.Itoa(r.Max))
	}
	if r.Priority != "" {
		query.Set("priority", r.Priority)
	}
	if r.Key != nil {
		query.Set("key", *r.Key)
	}
	path := queuePath(r.Queue) + "/peek"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	out := &api.PeekList{}
	if err := c.get(ctx, path, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Drain asks the agent to take no more work and waits, at most wait, for what is in its apps' hands to be settled. It
// reports whether all of it was. Only the admin socket knows this call.
func (c *Client) Drain(ctx context.Context, wait time.Duration) (bool, error) {
	res, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/drain?wait=" + wait.String()})
	if err != nil {
		return false, err
	}
	defer closeBody(res)
	return res.StatusCode != http.StatusAccepted, nil
}

// WaitReady returns when the socket answers, whatever it says, or when ctx ends. It asks again every 20 ms at first,
// later every half second.
func (c *Client) WaitReady(ctx context.Context) error {
	pause := 20 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			if last == nil {
				return c.transportError(ctx, ctx.Err())
			}
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		case <-timer.C:
		}
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := c.Status(attempt)
		cancel()
		var answered *api.Error
		if err == nil || errors.As(err, &answered) {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		timer.Reset(pause)
		pause = min(2*pause, 500*time.Millisecond)
	}
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path}, out)
}
