package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS does not answer a request that the identity may not send: it says so apart from all requests, and whoever waits for
// the answer waits in vain. The calls here end as soon as the server has said it.

// maxDenials bounds how many refusals of rights are remembered.
const maxDenials = 256

// asked is a call under way on a subject.
type asked struct {
	subject string
	refuse  context.CancelCauseFunc
}

// deny remembers that the server has refused this identity something, and ends the calls that wait for it.
func (c *Client) deny(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.denials) < maxDenials {
		c.denials = append(c.denials, err.Error())
	}
	for a := range c.asked { // each by itself
		if refuses(err.Error(), a.subject) {
			a.refuse(err)
		}
	}
}

// denied returns the server's words about a subject that this identity may not use, or "".
func (c *Client) denied(subject string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.denials {
		if refuses(d, subject) {
			return d
		}
	}
	return ""
}

// refuses tells whether the server's words are about a subject.
func refuses(words, subject string) bool { return strings.Contains(words, `"`+subject+`"`) }

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
		err = cause
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
