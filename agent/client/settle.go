package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// Settle tells the agent what became of deliveries, and returns the result of each, in order. An ack whose result is ok
// was confirmed by JetStream. See api.Status for what the others mean.
func (c *Client) Settle(ctx context.Context, settlements []api.Settlement) ([]api.SettleResult, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	var out api.SettleResponse
	err := c.call(ctx, request{
		method: http.MethodPost,
		path:   "/v1/settle",
		body:   bytes.NewReader(appendSettlements(nil, settlements)),
		header: http.Header{"Content-Type": {api.TypeJSON}},
	}, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Results) != len(settlements) {
		return nil, c.protocolError("settle: %d results for %d settlements", len(out.Results), len(settlements))
	}
	return out.Results, nil
}

// Next takes one message, or nil when none came within wait. lease is as in PullRequest.
func (c *Client) Next(ctx context.Context, capsule string, wait, lease time.Duration) (*api.Delivery, error) {
	got, err := c.Pull(ctx, PullRequest{Capsule: capsule, Max: 1, Wait: wait, Lease: lease})
	if err != nil || len(got.Deliveries) == 0 {
		return nil, err
	}
	return &got.Deliveries[0], nil
}

// appendSettlements appends the JSON array of settlements.
func appendSettlements(b []byte, settlements []api.Settlement) []byte {
	if b == nil {
		b = make([]byte, 0, 16+64*len(settlements))
	}
	b = append(b, '[')
	for i := range settlements {
		s := &settlements[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"token":`...), s.Token)
		b = appendString(append(b, `,"result":`...), string(s.Result))
		if s.Delay != "" {
			b = appendString(append(b, `,"delay":`...), s.Delay)
		}
		if s.Reason != "" {
			b = appendString(append(b, `,"reason":`...), s.Reason)
		}
		if s.Lease != "" {
			b = appendString(append(b, `,"lease":`...), s.Lease)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendString appends s as a JSON string. Tokens and results never need escapes; reasons are left to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // cannot fail for a string
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func queryEscape(s string) string { return url.QueryEscape(s) }
