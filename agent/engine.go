package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/agent/tracing"
	"github.com/fairlead/fairlead/config"
)

// engine is what the sockets call: the agent behind the interfaces that package socket declares.
type engine struct{ a *Agent }

// Definition implements socket.Publisher.
func (e engine) Definition(queue string) (config.Queue, bool) { return e.a.followed(queue) }

// Publish implements socket.Publisher.
func (e engine) Publish(ctx context.Context, queue string, p broker.Publication) (broker.Receipt, error) {
	def, err := e.publishable(queue, p)
	if err != nil {
		e.a.numbers.Published(def.Name, broker.Receipt{}, err)
		return broker.Receipt{}, err
	}
	span := e.trace(queue, &p)
	r, err := e.a.client.Publish(ctx, def, p)
	e.stored(queue, p, r, err)
	err = publishError(queue, err)
	e.counted(queue, span, r, err)
	return r, err
}

// PublishAsync implements socket.Publisher.
func (e engine) PublishAsync(queue string, p broker.Publication, done func(broker.Receipt, error)) {
	def, err := e.publishable(queue, p)
	if err != nil {
		e.a.numbers.Published(def.Name, broker.Receipt{}, err)
		done(broker.Receipt{}, err)
		return
	}
	span := e.trace(queue, &p)
	e.a.client.PublishAsync(def, p, func(r broker.Receipt, err error) {
		e.stored(queue, p, r, err)
		err = publishError(queue, err)
		e.counted(queue, span, r, err)
		done(r, err)
	})
}

// counted counts a publish that is over, and ends its span.
func (e engine) counted(queue string, span tracing.Published, r broker.Receipt, err error) {
	if span != nil {
		span(r, err)
	}
	e.a.numbers.Published(queue, r, err)
}

// trace begins the span of a publish, and gives p its context. It is nil without traces.
func (e engine) trace(queue string, p *broker.Publication) tracing.Published {
	if e.a.o.Tracer == nil {
		return nil
	}
	return e.a.o.Tracer.Publish(queue, p)
}

// stored tells the capsules of a message before its publisher is: a pull that comes after the publish knows of it.
func (e engine) stored(queue string, p broker.Publication, r broker.Receipt, err error) {
	if err != nil || r.Duplicate || r.Delayed != "" {
		return
	}
	for _, name := range e.a.order {
		e.a.capsules[name].Stored(queue, p.Level, p.Key, p.Weight, r.Seq)
	}
}

// publishable returns the definition that a message is stored under, or why it is refused.
func (e engine) publishable(queue string, p broker.Publication) (config.Queue, error) {
	def, ok := e.a.followed(queue)
	if !ok {
		return def, unknownQueue(queue)
	}
	if p.Level >= def.Levels {
		return def, &api.Error{
			Code:    api.CodePriority,
			Message: fmt.Sprintf("queue %s has %d priority levels, 0 (the highest) to %d; %d is not one of them", queue, def.Levels, def.Levels-1, p.Level),
		}
	}
	if limit := def.Limits.MaxPayload; limit > 0 && int64(len(p.Data)) > limit {
		return def, &api.Error{
			Code:    api.CodePayloadTooLarge,
			Message: fmt.Sprintf("the payload has %d bytes; queue %s takes at most %d (limits.max_payload)", len(p.Data), queue, limit),
		}
	}
	return def, nil
}

// Pull implements socket.Capsules.
func (e engine) Pull(ctx context.Context, capsule string, r dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
	c, ok := e.a.capsules[capsule]
	if !ok {
		return nil, nil, unknownCapsule(capsule)
	}
	messages, err := c.Pull(ctx, r)
	if errors.Is(err, dispatch.ErrStopped) {
		return nil, c, nil
	}
	if err != nil && ctx.Err() == nil {
		err = brokerError(err)
	}
	return messages, c, err
}

// Capsule implements socket.Capsules.
func (e engine) Capsule(name string) (config.Capsule, bool) {
	for _, c := range e.a.settings().Capsules {
		if c.Name == name {
			return c, true
		}
	}
	return config.Capsule{}, false
}

// Drain implements socket.Control.
func (e engine) Drain(ctx context.Context) error { return e.a.Drain(ctx) }
