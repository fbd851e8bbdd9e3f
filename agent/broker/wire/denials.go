package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/rights"
)

// NATS does not answer a request that the identity may not send: it says so apart from all requests, and whoever waits for
// the answer waits in vain. The calls here end as soon as the server has said it.

// NotPermittedError says that NATS refuses this identity something that an agent needs. Nothing was done. It wraps
// [ErrUnavailable] and NATS's own permission violation.
type NotPermittedError struct {
	Direction rights.Direction
	Subject   string            // as it was used
	Missing   rights.Permission // what has to be allowed; zero if nothing here needs the subject
}

// Error implements error.
func (e *NotPermittedError) Error() string { return "broker: " + e.Sentence() }

// Sentence is the error for people, without the package.
func (e *NotPermittedError) Sentence() string {
	words := map[rights.Direction]string{rights.Publish: "publish to", rights.Subscribe: "subscribe to"}
	s := fmt.Sprintf("permissions violation: NATS does not let this identity %s %q", words[e.Direction], e.Subject)
	if e.Missing.Subject == "" {
		return s
	}
	if e.Missing.For != "" {
		s += " (" + e.Missing.For + ")"
	}
	s += ": allow it"
	if e.Missing.Subject != e.Subject {
		s += fmt.Sprintf(" to %s %q", words[e.Direction], e.Missing.Subject)
	}
	if e.Missing.Setup {
		return s + "; \"fairlead permissions --setup\" lists all that setting up needs, and an agent that runs with --no-setup needs none of it"
	}
	return s + "; \"fairlead permissions\" lists all that it needs"
}

// Unwrap makes errors.Is true for ErrUnavailable and nats.ErrPermissionViolation.
func (e *NotPermittedError) Unwrap() []error {
	return []error{ErrUnavailable, nats.ErrPermissionViolation}
}

const (
	// maxDenials bounds how many refusals of rights are remembered.
	maxDenials = 256
	// denialAge is how long a refusal counts as one of now. What an agent does without a right it tries again sooner.
	denialAge = time.Minute
	// denialGrace is how long a call whose right was refused still waits for its answer: the refusal may be of a later
	// call, where the right was taken away between the two.
	denialGrace = 500 * time.Millisecond
)

// asked is a call under way on a subject.
type asked struct {
	subject string
	refuse  context.CancelCauseFunc
}

// denial is what the server has refused this identity.
type denial struct {
	err  *NotPermittedError
	last time.Time
}

// violation matches the server's words.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription)(?: with reply of "[^"]*")? to "([^"]+)"`)

// Deny remembers that the server has refused this identity something, and ends the calls that wait for it. It returns nil
// for an error that is none of these.
func (w *Wire) Deny(err error) *NotPermittedError {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	words := violation.FindStringSubmatch(err.Error())
	if words == nil {
		return nil
	}
	refused := &NotPermittedError{Subject: words[2]}
	if strings.EqualFold(words[1], "subscription") {
		refused.Direction = rights.Subscribe
	}
	refused.Missing = w.wanted(refused.Direction, refused.Subject)
	w.mu.Lock()
	known := slices.IndexFunc(w.denials, func(d denial) bool { return *d.err == *refused })
	switch {
	case known >= 0:
		w.denials[known].last = time.Now()
	case len(w.denials) < maxDenials:
		w.denials = append(w.denials, denial{refused, time.Now()})
	}
	for a := range w.asked { // each by itself
		if refused.Direction == rights.Publish && a.subject == refused.Subject {
			copied := *refused
			a.refuse(&copied)
		}
	}
	w.mu.Unlock()
	if refused.Direction == rights.Publish {
		w.Deletes.refused(refused)
		w.Writes.refused(refused)
	}
	return refused
}

// Denied returns what the server has refused lately, of one subject, or nil.
func (w *Wire) Denied(dir rights.Direction, subject string) *NotPermittedError {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.denials {
		if d.err.Direction == dir && d.err.Subject == subject {
			copied := *d.err
			return &copied
		}
	}
	return nil
}

// Missing describes the permissions that the server has refused this agent within the last minute, one for each thing that
// it needs them for.
func (w *Wire) Missing() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := map[string]bool{}
	for _, d := range w.denials {
		of := d.err.Direction.String() + cmp.Or(d.err.Missing.Subject, d.err.Subject)
		if time.Since(d.last) > denialAge || said[of] {
			continue // of lanes there are many, and one line says it
		}
		said[of] = true
		list = append(list, d.err.Sentence())
	}
	return list
}

// Permitted makes a call on a subject. Its error is the server's words when this identity may not.
func Permitted[T any](ctx context.Context, w *Wire, subject string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &asked{subject, cancel}
	w.mu.Lock()
	if w.asked == nil {
		w.asked = map[*asked]struct{}{}
	}
	w.asked[a] = struct{}{}
	w.mu.Unlock()
	v, err := call(ctx)
	w.mu.Lock()
	delete(w.asked, a)
	w.mu.Unlock()
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		err = cause // a *NotPermittedError
	}
	return v, err
}

// Stream looks at a stream.
func (w *Wire) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return Permitted(ctx, w, "$JS.API.STREAM.INFO."+name, func(ctx context.Context) (jetstream.Stream, error) {
		return w.JS.Stream(ctx, name)
	})
}

// CreateStream makes a stream.
func (w *Wire) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return Permitted(ctx, w, "$JS.API.STREAM.CREATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return w.JS.CreateStream(ctx, cfg)
	})
}

// UpdateStream changes a stream.
func (w *Wire) UpdateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return Permitted(ctx, w, "$JS.API.STREAM.UPDATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return w.JS.UpdateStream(ctx, cfg)
	})
}
