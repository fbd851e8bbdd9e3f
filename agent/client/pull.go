package client

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// Format is how a pull's answer travels. The deliveries are the same.
type Format int

// The two formats.
const (
	Frames Format = iota // length-prefixed: payloads are not escaped; the faster one
	NDJSON
)

// PullRequest asks for deliveries. Its zero value, but for Capsule, asks for one that is waiting now.
type PullRequest struct {
	Capsule string
	Max     int           // the credit; 0 means 1
	Wait    time.Duration // how long to wait for the first, at most 5 minutes; 0 means one full round
	Lease   time.Duration // how long each may take before it is settled or extended; 0 means the capsule's
	Session string        // whose connection they depend on; "" means only the lease decides
	Format  Format

	// Settle holds settlements of earlier deliveries. They run beside the take. Those that did not end as ok are in
	// PullResult.SettleFailed. If Pull returns an error, what became of them is unknown: send them again.
	Settle []api.Settlement
}

// PullResult is the answer to a pull. Without deliveries, nothing came in time.
type PullResult struct {
	// Deliveries in the order to be worked on. Payloads of one answer share memory: keep a copy of what outlives the rest.
	Deliveries   []api.Delivery
	SettleFailed []api.SettleResult
	Draining     bool // the agent is going away, and hands out nothing more
}

// Pull asks for up to r.Max deliveries and blocks until there is one, r.Wait has passed or ctx ends. If ctx ends while
// the agent answers, what was in the answer comes back to the queue when the lease or the session ends.
func (c *Client) Pull(ctx context.Context, r PullRequest) (*PullResult, error) {
	header := http.Header{"Accept": {api.TypeFrames}}
	if r.Format == NDJSON {
		header["Accept"] = []string{api.TypeNDJSON}
	}
	q := request{method: http.MethodPost, path: r.path(), header: header}
	if len(r.Settle) > 0 {
		header["Content-Type"] = []string{api.TypeJSON}
		q.body = bytes.NewReader(appendSettlements(nil, r.Settle))
	}
	res, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	defer closeBody(res)
	out := &PullResult{Draining: res.Header.Get(api.HeaderState) == api.StateDraining}
	if res.StatusCode == http.StatusNoContent {
		return out, nil
	}
	body, err := c.readBody(ctx, res)
	if err != nil {
		return nil, err
	}
	// By what the answer is, not by what was asked for: NDJSON is the default of the protocol.
	if res.Header.Get("Content-Type") == api.TypeFrames {
		err = decodeFrames(body, out)
	} else {
		err = decodeLines(body, out)
	}
	if err != nil {
		return nil, c.protocolError("pull: %w", err)
	}
	return out, nil
}

// path returns the path with the query. The parameters are appended by hand: this runs for every pull.
func (r *PullRequest) path() string {
	b := append(make([]byte, 0, 128), capsulePath(r.Capsule)...)
	b = append(b, "/pull?max="...)
	b = strconv.AppendInt(b, int64(max(r.Max, 1)), 10)
	if r.Wait > 0 {
		b = append(append(b, "&wait="...), r.Wait.String()...)
	}
	if r.Lease > 0 {
		b = append(append(b, "&lease="...), r.Lease.String()...)
	}
	if r.Session != "" {
		b = append(append(b, "&session="...), queryEscape(r.Session)...)
	}
	return string(b)
}
