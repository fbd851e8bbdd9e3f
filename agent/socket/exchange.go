package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// exchange is one request and its answer.
type exchange struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	route *route
	name  string // of the queue, the capsule or the token in the path, decoded
	begun bool   // the answer's head was written
	heard bool   // no more of the body will come
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.work.Done()
	x := &exchange{Server: s, w: w, r: r, rc: http.NewResponseController(w)}
	defer x.survive()
	w.Header()[api.HeaderState] = []string{s.state()}
	if r.Body != http.NoBody {
		// Also for a body that no handler reads: the HTTP server reads the rest of it, to use the connection again.
		x.awaitBody()
	}
	route, name, err := s.find(r, w.Header())
	if err != nil {
		x.fail(err)
		return
	}
	x.route, x.name = route, name
	if err := route.serve(x); err != nil {
		x.fail(err)
	}
}

// survive turns a panic of a handler into an answer: one bug must not take the agent's other work down.
func (x *exchange) survive() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	x.log.Error("a request failed by a bug", "method", x.r.Method, "path", x.r.URL.Path, "panic", v)
	if x.begun {
		panic(http.ErrAbortHandler)
	}
	x.fail(&api.Error{Code: api.CodeInternal, Message: "the agent has a bug; its log has more"})
}

// conn returns the request's connection.
func (x *exchange) conn() *conn {
	c, _ := x.r.Context().Value(connKey{}).(*conn)
	return c
}

// head writes status and headers.
func (x *exchange) head(status int, contentType string, length int) {
	h := x.w.Header()
	h[api.HeaderState] = []string{x.state()} // it may have changed while the request waited
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	if length >= 0 {
		h["Content-Length"] = []string{strconv.Itoa(length)}
	}
	x.begun = true
	x.w.WriteHeader(status)
}

// json answers with v.
func (x *exchange) json(status int, v any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	x.head(status, api.TypeJSON, body.Len())
	_, _ = x.w.Write(body.Bytes()) // a client that is gone is nobody to tell
	return nil
}

// noContent answers without a body.
func (x *exchange) noContent() {
	x.head(http.StatusNoContent, "", -1)
}

// fail answers with an error. Errors that are not the API's are logged, and not shown.
func (x *exchange) fail(err error) {
	if x.begun {
		panic(http.ErrAbortHandler) // the client must not take a torn answer for a whole one
	}
	var e *api.Error
	if !errors.As(err, &e) {
		if x.r.Context().Err() != nil && x.base.Err() == nil {
			// The client is gone, or has closed its half of the connection, which looks the same: who still listens is told.
			e = badRequest("the connection was closed from your side while the call waited: keep it open until the answer has come")
		} else {
			e = x.unexpected(err)
		}
	}
	status := e.Code.HTTPStatus()
	h := x.w.Header()
	switch status {
	case http.StatusServiceUnavailable:
		h["Retry-After"] = []string{"1"}
	case http.StatusRequestEntityTooLarge:
		h["Connection"] = []string{"close"} // rather than read the rest
	}
	rest := x.sendsMore(status)
	if rest {
		h["Connection"] = []string{"close"}
	}
	if e := x.json(status, api.ErrorBody{Error: e}); e != nil {
		x.log.Error("an answer could not be encoded", "error", e)
	}
	if rest {
		x.hearOut()
	}
}

func (x *exchange) unexpected(err error) *api.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &api.Error{Code: api.CodeOverloaded, Message: "the agent is stopping, or did not get an answer in time; try again"}
	}
	x.log.Error("a request failed", "method", x.r.Method, "path", x.r.URL.Path, "error", err)
	return &api.Error{Code: api.CodeInternal, Message: "the agent failed to answer this request; its log has more"}
}

// awaitBody gives the next byte of the body its time.
func (x *exchange) awaitBody() {
	_ = x.rc.SetReadDeadline(time.Now().Add(x.limits.BodyTimeout))
}

// bodyDone lets the client be silent again. The HTTP server goes on to read, to notice when it leaves.
func (x *exchange) bodyDone() {
	x.heard = true
	_ = x.rc.SetReadDeadline(time.Time{})
}

// query returns the parameters, each at most once, and only those with these names.
func (x *exchange) query(names ...string) (url.Values, error) {
	if x.r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query cannot be read: %v", err)
	}
	// Which of several mistakes is named first does not matter.
	for name, values := range q {
		if err := checkParameter(name, values, names); err != nil {
			return nil, err
		}
	}
	return q, nil
}
