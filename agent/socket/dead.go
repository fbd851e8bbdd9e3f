package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
)

// DeadLetters shows the messages that were given up, and puts them back. It is safe for several goroutines. Errors that
// clients can act on are *api.Error.
type DeadLetters interface {
	// Dead lists a queue's dead letters without payloads, the oldest first, at most most of them.
	Dead(ctx context.Context, queue string, most int) (*api.DeadList, error)
	// DeadLetter returns one with its payload.
	DeadLetter(ctx context.Context, queue string, seq uint64) (*api.DeadLetter, error)
	// RetryDead puts dead letters back into the queue, at a level; nil: where the definition says, or where they were. It
	// ends with what was done so far when ctx ends.
	RetryDead(ctx context.Context, queue string, r api.DeadRetry, level *int) (*api.DeadRetried, error)
	// PurgeDead deletes all of them.
	PurgeDead(ctx context.Context, queue string) (*api.DeadPurged, error)
}

const (
	maxDead      = 1_000    // dead letters of one list, and of one retry by number
	maxRetryBody = 64 << 10 // bytes
)

// deadList answers with a queue's dead letters.
func (x *exchange) deadList() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	q, err := x.query("max")
	if err != nil {
		return err
	}
	most, err := integer(q, "max", 1, maxDead, 100)
	if err != nil {
		return err
	}
	v, err := x.DeadLetters.Dead(x.r.Context(), x.name, most)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// deadShow answers with one dead letter.
func (x *exchange) deadShow() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	path := x.r.URL.EscapedPath()
	text := path[strings.LastIndexByte(path, '/')+1:]
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return badRequest("%.64q is no dead letter: use the seq that the list shows", text)
	}
	v, err := x.DeadLetters.DeadLetter(x.r.Context(), x.name, seq)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// deadRetry puts dead letters back. When none could be, and all for the same reason, that is the answer's error.
func (x *exchange) deadRetry() error {
	d, err := x.definition()
	if err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	r, err := x.readRetry()
	if err != nil {
		return err
	}
	text, err := scalar("priority", r.Priority)
	if err != nil {
		return err
	}
	var level *int
	if text != "" {
		n, err := parseLevel(d, text)
		if err != nil {
			return err
		}
		level = &n
	}
	v, err := x.DeadLetters.RetryDead(x.r.Context(), x.name, *r, level)
	if err != nil {
		return err
	}
	if e := commonError(v); e != nil {
		return x.json(e.Code.HTTPStatus(), struct {
			Error *api.Error `json:"error"`
			*api.DeadRetried
		}{e, v})
	}
	return x.json(http.StatusOK, v)
}

// readRetry reads the body of a retry.
func (x *exchange) readRetry() (*api.DeadRetry, error) {
	b, err := x.readBody(maxRetryBody, func() *api.Error {
		return badRequest("the body is larger than %d bytes: name fewer at a time, or use {\"all\":true}", maxRetryBody)
	})
	defer b.release()
	if err != nil {
		return nil, err
	}
	const hint = `send {"seqs":[17,18]} or {"all":true}, with an optional "priority"`
	r := &api.DeadRetry{}
	decoder := json.NewDecoder(bytes.NewReader(b.data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(r); err != nil {
		return nil, badRequest("the body cannot be read (%s): %s", notRead(err), hint)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("something follows the body's object: %s", hint)
	}
	switch {
	case r.All == (len(r.Seqs) > 0):
		return nil, badRequest("say which: %s", hint)
	case len(r.Seqs) > maxDead:
		return nil, badRequest("at most %d seqs at a time: name fewer, or use {\"all\":true}", maxDead)
	case !r.All && (r.Max != 0 || r.From != 0 || r.Until != 0):
		return nil, badRequest(`"max", "from" and "until" go with "all": remove them`)
	case r.Max < 0:
		return nil, badRequest(`"max" has to be 1 or more, or 0 for all`)
	}
	return r, nil
}

// commonError is the reason why nothing was put back, if there is one for all.
func commonError(v *api.DeadRetried) *api.Error {
	if v.Retried > 0 || len(v.Failed) == 0 {
		return nil
	}
	first := v.Failed[0].Error
	if v.Next > 0 && first.Reason == "max_messages_per_key" {
		return nil // that tenant is full; others to come may not be
	}
	for _, f := range v.Failed {
		if f.Error.Code != first.Code {
			return nil
		}
	}
	return first
}

// deadPurge deletes a queue's dead letters.
func (x *exchange) deadPurge() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	if err := x.noBody(); err != nil {
		return err
	}
	v, err := x.DeadLetters.PurgeDead(x.r.Context(), x.name)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}
