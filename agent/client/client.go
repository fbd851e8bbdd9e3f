package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// MaxAnswer is the most that is read of one answer, in bytes: 256 MiB. Streams (sessions, results of a batch) have no
// limit as a whole, only one of 1 MiB a line.
const MaxAnswer = 256 << 20

const (
	maxErrorBody = 64 << 10
	maxLine      = 1 << 20

	// baseURL is what requests are addressed to. The host is never resolved: every connection goes to the socket.
	baseURL = "http://fairlead"
)

// Client talks to one socket of an agent: the app socket, or the admin socket, which answers all reads as well and
// alone knows Drain and what operators set. It is safe for use by several goroutines. Make it with New.
type Client struct {
	socket    string
	http      *http.Client
	transport *http.Transport
}

// New returns a client of the socket at path, see ParseSocket for addresses. It does not connect: the first call does.
func New(path string) *Client {
	dialer := &net.Dialer{}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
		DisableCompression: true, // payloads are passed through as they are
		// One pull waits on each connection, so the pool has to keep as many as there are waiting pulls.
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     16 << 10,
	}
	return &Client{socket: path, transport: transport, http: &http.Client{Transport: transport}}
}

// Socket returns the path of the socket.
func (c *Client) Socket() string { return c.socket }

// Close drops the idle connections. Calls under way go on, and the client can still be used.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request is one call: what differs between them.
type request struct {
	method string
	path   string // escaped, with the query
	body   io.Reader
	header http.Header
}

// do sends r. A status of 400 or more becomes an *api.Error; otherwise the caller closes the body.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, baseURL+r.path, r.body)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
	}
	if r.header != nil {
		req.Header = r.header
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer closeBody(res)
	return nil, c.answeredError(ctx, res)
}

// answeredError reads the error that the agent answered.
func (c *Client) answeredError(ctx context.Context, res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return c.transportError(ctx, err)
	}
	var body api.ErrorBody
	if json.Unmarshal(text, &body) == nil && body.Error != nil && body.Error.Code != "" {
		return body.Error
	}
	return &api.Error{
		Code:    api.CodeInternal,
		Message: fmt.Sprintf("%s answered status %d: %.200q", c.socket, res.StatusCode, bytes.TrimSpace(text)),
	}
}

// call sends r and decodes the JSON answer into out.
func (c *Client) call(ctx context.Context, r request, out any) error {
	res, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer closeBody(res)
	text, err := c.readBody(ctx, res)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return c.protocolError("%s %s: %w", r.method, r.path, err)
	}
	return nil
}

// readBody reads an answer whole. Memory grows with what arrives, not with what Content-Length promises.
func (c *Client) readBody(ctx context.Context, res *http.Response) ([]byte, error) {
	const first = 1 << 20
	if res.ContentLength > MaxAnswer {
		return nil, fmt.Errorf("client: %s: %w: %d bytes", c.socket, ErrAnswerTooLarge, res.ContentLength)
	}
	if n := res.ContentLength; n >= 0 && n <= first {
		body := make([]byte, n)
		if _, err := io.ReadFull(res.Body, body); err != nil {
			return nil, c.transportError(ctx, err)
		}
		return body, nil
	}
	var body bytes.Buffer
	body.Grow(first)
	n, err := body.ReadFrom(io.LimitReader(res.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, c.transportError(ctx, err)
	case n > MaxAnswer:
		return nil, fmt.Errorf("client: %s: %w: more than %d bytes", c.socket, ErrAnswerTooLarge, MaxAnswer)
	}
	return body.Bytes(), nil
}

// closeBody reads a rest that is small, so that the connection can be used again, and closes.
func closeBody(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
}

// IsRetryable reports whether the same call may succeed a moment later: nobody answers, the agent went away, or it has no
// broker or no room just now. It says nothing about whether repeating is safe, see ErrConnectionLost.
func IsRetryable(err error) bool {
	if errors.Is(err, ErrNoAgent) || errors.Is(err, ErrConnectionLost) {
		return true
	}
	var answered *api.Error
	if !errors.As(err, &answered) {
		return false
	}
	switch answered.Code {
	case api.CodeBroker, api.CodeOverloaded, api.CodeOutcomeUnknown, api.CodeUnknownSession, api.CodeInternal:
		return true
	}
	return false
}

func queuePath(queue string) string { return "/v1/queues/" + url.PathEscape(queue) }

func capsulePath(capsule string) string { return "/v1/capsules/" + url.PathEscape(capsule) }
