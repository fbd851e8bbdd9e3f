package broker

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
func (e *NotPermittedError) Error() string { return "broker: " + e.sentence() }

// sentence is the error for people, without the package.
func (e *NotPermittedError) sentence() string {
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

// deny remembers that the server has refused this identity something, and ends the calls that wait for it. It returns nil
// for an error that is none of these.
func (c *Client) deny(err error) *NotPermittedError {
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
	refused.Missing = rights.Wanted(c.names, c.queues, refused.Direction, refused.Subject)
	c.mu.Lock()
	known := slices.IndexFunc(c.denials, func(d denial) bool { return *d.err == *refused })
	switch {
	case known >= 0:
		c.denials[known].last = time.Now()
	case len(c.denials) < maxDenials:
		c.denials = append(c.denials, denial{refused, time.Now()})
	}
	for a := range c.asked { // each by itself
		if refused.Direction == rights.Publish && a.subject == refused.Subject {
			copied := *refused
			a.refuse(&copied)
		}
	}
	c.mu.Unlock()
	if refused.Direction == rights.Publish && c.writes != nil {
		c.deletes.refused(refused)
		c.writes.refused(refused)
	}
	return refused
}

// denied returns what the server has refused lately, of one subject, or nil.
func (c *Client) denied(dir rights.Direction, subject string) *NotPermittedError {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.denials {
		if d.err.Direction == dir && d.err.Subject == subject {
			copied := *d.err
			return &copied
		}
	}
	return nil
}

// Missing describes the permissions that the server has refused this agent within the last minute, one for each thing that
// it needs them for.
func (c *Client) Missing() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := map[string]bool{}
	for _, d := range c.denials {
		of := d.err.Direction.String() + cmp.Or(d.err.Missing.Subject, d.err.Subject)
		if time.Since(d.last) > denialAge || said[of] {
			continue // of lanes there are many, and one line says it
		}
		said[of] = true
		list = append(list, d.err.sentence())
	}
	return list
}

// permitted makes a call on a subject. Its error is the server's words when this identity may not.
func permitted[T any](ctx context.Context, c *Client, subject string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &asked{subject, cancel}
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[*asked]struct{}{}
	}
	c.asked[a] = struct{}{}
	c.mu.Unlock()
	v, err := call(ctx)
	c.mu.Lock()
	delete(c.asked, a)
	c.mu.Unlock()
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		err = cause // a *NotPermittedError
	}
	return v, err
}

func (c *Client) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return permitted(ctx, c, "$JS.API.STREAM.INFO."+name, func(ctx context.Context) (jetstream.Stream, error) {
		return c.js.Stream(ctx, name)
	})
}

func (c *Client) createStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return permitted(ctx, c, "$JS.API.STREAM.CREATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return c.js.CreateStream(ctx, cfg)
	})
}

func (c *Client) updateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return permitted(ctx, c, "$JS.API.STREAM.UPDATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return c.js.UpdateStream(ctx, cfg)
	})
}
