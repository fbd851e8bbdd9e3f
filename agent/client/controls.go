package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fairlead/fairlead/agent/api"
)

// The calls of this file are known to the admin socket only. What they set holds for all agents, which follow within a
// second. They return once it is stored; after [ErrConnectionLost] it may be, and asking again does no harm.

// Pause stops that anything is taken from a queue; of one key if key is not nil, where "" are the messages without a key.
// What is in the hands of apps can be settled, and publishing goes on.
func (c *Client) Pause(ctx context.Context, queue string, key *string) (*api.Paused, error) {
	out := &api.Paused{}
	if err := c.call(ctx, request{method: http.MethodPost, path: controlPath(queue, key) + "/pause"}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Resume takes a pause back.
func (c *Client) Resume(ctx context.Context, queue string, key *string) (*api.Paused, error) {
	out := &api.Paused{}
	if err := c.call(ctx, request{method: http.MethodPost, path: controlPath(queue, key) + "/resume"}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Weight returns the weight that counts for a key, and where it comes from.
func (c *Client) Weight(ctx context.Context, queue, key string) (*api.KeyWeight, error) {
	return c.weight(ctx, request{method: http.MethodGet, path: weightPath(queue, key)})
}

// SetWeight overrides the weight of a key: above 0, at most 1000, with at most three decimals.
func (c *Client) SetWeight(ctx context.Context, queue, key string, weight float64) (*api.KeyWeight, error) {
	body, err := json.Marshal(struct {
		Weight json.Number `json:"weight"`
	}{json.Number(strconv.FormatFloat(weight, 'f', -1, 64))})
	if err != nil {
		return nil, fmt.Errorf("client: weight %v: %w", weight, err)
	}
	return c.weight(ctx, request{method: http.MethodPut, path: weightPath(queue, key), body: bytes.NewReader(body)})
}

// UnsetWeight takes an override back, and returns the weight that counts then.
func (c *Client) UnsetWeight(ctx context.Context, queue, key string) (*api.KeyWeight, error) {
	return c.weight(ctx, request{method: http.MethodDelete, path: weightPath(queue, key)})
}

func (c *Client) weight(ctx context.Context, r request) (*api.KeyWeight, error) {
	out := &api.KeyWeight{}
	if err := c.call(ctx, r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// PurgeRequest says which waiting messages to remove.
type PurgeRequest struct {
	Queue string
	Key   *string // only this key's; nil means all, "" the messages without a key
	Max   int     // at most so many in this call; 0 is no bound
	Until uint64  // of an earlier answer, to go on with that purge; 0 begins one
}

// Purge removes waiting messages, and leaves alone what is in the hands of apps. To show progress, set Max and call it
// again with the answer's Until as long as the answer says More.
func (c *Client) Purge(ctx context.Context, r PurgeRequest) (*api.Purged, error) {
	query := url.Values{}
	if r.Max > 0 {
		query.Set("max", strconv.Itoa(r.Max))
	}
	if r.Until > 0 {
		query.Set("until", strconv.FormatUint(r.Until, 10))
	}
	path := controlPath(r.Queue, r.Key) + "/purge"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	out := &api.Purged{}
	if err := c.call(ctx, request{method: http.MethodPost, path: path}, out); err != nil {
		return nil, err
	}
	return out, nil
}

func controlPath(queue string, key *string) string {
	if key == nil {
		return queuePath(queue)
	}
	return queuePath(queue) + "/keys/" + url.PathEscape(*key)
}

func weightPath(queue, key string) string { return controlPath(queue, &key) + "/weight" }
