package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fairlead/fairlead/agent/api"
)

// The calls of this file are the admin socket's.

// Dead lists a queue's dead letters without their payloads, the oldest first, at most most of them; 0 leaves the number to
// the agent.
func (c *Client) Dead(ctx context.Context, queue string, most int) (*api.DeadList, error) {
	path := queuePath(queue) + "/dead"
	if most > 0 {
		path += "?max=" + strconv.Itoa(most)
	}
	out := &api.DeadList{}
	if err := c.get(ctx, path, out); err != nil {
		return nil, err
	}
	return out, nil
}

// DeadLetter returns one dead letter with its payload.
func (c *Client) DeadLetter(ctx context.Context, queue string, seq uint64) (*api.DeadLetter, error) {
	out := &api.DeadLetter{}
	if err := c.get(ctx, queuePath(queue)+"/dead/"+strconv.FormatUint(seq, 10), out); err != nil {
		return nil, err
	}
	return out, nil
}

// RetryDead puts dead letters back into their queue. What could not be put back is in the answer; when nothing was, and all
// for the same reason, that is the error.
func (c *Client) RetryDead(ctx context.Context, queue string, r api.DeadRetry) (*api.DeadRetried, error) {
	out := &api.DeadRetried{}
	if err := c.post(ctx, queuePath(queue)+"/dead/retry", r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// PurgeDead deletes all dead letters of a queue and returns how many.
func (c *Client) PurgeDead(ctx context.Context, queue string) (uint64, error) {
	out := &api.DeadPurged{}
	if err := c.post(ctx, queuePath(queue)+"/dead/purge", nil, out); err != nil {
		return 0, err
	}
	return out.Purged, nil
}

// post sends body as JSON, or nothing when it is nil.
func (c *Client) post(ctx context.Context, path string, body, out any) error {
	r := request{method: http.MethodPost, path: path}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("client: %s: %w", path, err)
		}
		r.body, r.header = bytes.NewReader(text), http.Header{"Content-Type": {api.TypeJSON}}
	}
	return c.call(ctx, r, out)
}
