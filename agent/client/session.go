package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// silence is how long a session may be quiet before its agent counts as gone: agents ping every 15 s.
const silence = 50 * time.Second

// Session is a connection that deliveries depend on: those of pulls that name its ID are given back at once when it
// ends, however it ends. Make it with Client.Session. Next is for one goroutine; Close may be called from any.
type Session struct {
	ID string

	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Scanner
	quiet  *time.Timer
	once   sync.Once
}

// Session opens a session. It lives until Close, until ctx ends or until the connection is lost, which Next tells.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	res, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/session"})
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Session{client: c, ctx: ctx, cancel: cancel, body: res.Body, lines: bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, maxLine)
	// Closing the body ends a Read that waits; the context stays as it is, so that the error is told as a lost connection.
	s.quiet = time.AfterFunc(silence, func() { _ = s.body.Close() })
	first, err := s.Next()
	if err == nil && first.Session == "" {
		err = c.protocolError("the session has no id")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.ID = first.Session
	return s, nil
}

// Next blocks until the next event: draining, revoked or ping. Its error is ErrConnectionLost when the session is over
// because the agent went away, and then everything it held is lost; or that of the context; or net/http's after Close.
func (s *Session) Next() (api.Event, error) {
	for s.lines.Scan() {
		s.quiet.Reset(silence)
		if len(s.lines.Bytes()) == 0 {
			continue
		}
		var e api.Event
		if err := json.Unmarshal(s.lines.Bytes(), &e); err != nil {
			return api.Event{}, s.client.protocolError("session: %w", err)
		}
		return e, nil
	}
	err := s.lines.Err()
	if err == nil {
		err = errors.New("the session ended")
	}
	return api.Event{}, s.client.transportError(s.ctx, err)
}

// Close ends the session: what it still holds is given back at once. It can be called twice.
func (s *Session) Close() {
	s.once.Do(func() {
		s.quiet.Stop()
		s.cancel()
		_ = s.body.Close()
	})
}
