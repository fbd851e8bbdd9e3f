package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// Delayed implements socket.Delays.
func (e engine) Delayed(ctx context.Context, queue string, most int) (*api.DelayedList, error) {
	def, ok := e.a.definition(queue)
	if !ok {
		return nil, unknownQueue(queue)
	}
	found, err := e.a.client.Delayed(ctx, broker.NewLayout(def), most)
	if err != nil {
		return nil, delayError(queue, err)
	}
	list := &api.DelayedList{Delayed: []api.Delayed{}, Total: found.Total}
	for _, d := range found.Messages {
		m := api.Delayed{
			Handle: d.Handle, At: d.At, Due: d.Due, Priority: d.Level, Key: d.Key, ID: d.ID, Bytes: d.Size, PublishedAt: d.Stored.UTC(),
		}
		if !d.Expires.IsZero() {
			expires := d.Expires.UTC()
			m.ExpiresAt = &expires
		}
		list.Delayed = append(list.Delayed, m)
	}
	return list, nil
}

// CancelDelayed implements socket.Delays.
func (e engine) CancelDelayed(ctx context.Context, queue, handle string) error {
	if _, ok := e.a.definition(queue); !ok {
		return unknownQueue(queue)
	}
	return delayError(queue, e.a.client.CancelDelayed(ctx, queue, handle))
}

// delayError translates the broker's errors for whoever looks after delayed messages.
func delayError(queue string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrDue):
		return &api.Error{Code: api.CodeUnknownHandle, Message: "its time has come: it is in the queue, or about to be, and is delivered like any other"}
	case errors.Is(err, broker.ErrUnknownHandle):
		return &api.Error{Code: api.CodeUnknownHandle, Message: "queue " + queue + " has no delayed message with this handle: it is in the queue by now, or was cancelled; GET /v1/queues/" + queue + "/delayed lists those that are left"}
	case errors.Is(err, broker.ErrOutcomeUnknown):
		return &api.Error{Code: api.CodeOutcomeUnknown, Message: "NATS did not answer in time: the message may be cancelled; cancel it again to know"}
	case errors.Is(err, broker.ErrStreamMissing):
		return noDelays(queue)
	}
	return brokerError(err)
}

func noDelays(queue string) error {
	return &api.Error{Code: api.CodeBroker, Message: fmt.Sprintf("queue %s has no stream for delayed messages: run setup, or restart an agent that may make it", queue)}
}
