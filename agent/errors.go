package agent

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/credentials"
	"github.com/fairlead/fairlead/agent/broker/names"
)

var (
	// ErrBroker says that NATS cannot be reached or used. The agent was not started, or the set-up was not done.
	ErrBroker = errors.New("agent: NATS cannot be used")
	// ErrSecret says that a file with a secret that the settings name is missing, empty, or open to others.
	ErrSecret = credentials.ErrSecret
	// ErrStopped says that the agent was stopped. It cannot be started again.
	ErrStopped = errors.New("agent: stopped")
	// ErrReload says that a change of the file needs a restart. Nothing was changed.
	ErrReload = errors.New("agent: the file cannot be taken over while running")
)

// publishError translates the broker's errors for the one who published.
func publishError(queue string, err error) error {
	var full *broker.FullError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		return &api.Error{Code: api.CodeQueueFull, Reason: full.Reason, Message: fullMessage(queue, full.Reason)}
	case errors.Is(err, names.ErrInvalidKey):
		return &api.Error{Code: api.CodeInvalidKey, Message: err.Error()}
	case errors.Is(err, broker.ErrTooLarge):
		return &api.Error{Code: api.CodePayloadTooLarge, Message: err.Error() + ": send less, or raise max_payload of the NATS server (of an embedded one: limits.max_payload of the queue)"}
	case errors.Is(err, broker.ErrOutcomeUnknown):
		return &api.Error{Code: api.CodeOutcomeUnknown, Message: "NATS did not answer in time: the message may have been stored; publishing it again is safe with a Fairlead-Id"}
	case errors.Is(err, broker.ErrNoDelays):
		return noDelays(queue)
	case errors.Is(err, broker.ErrNobody):
		return &api.Error{Code: api.CodeBroker, Message: fmt.Sprintf("NATS is there, but nothing stores messages of queue %s: its stream is missing (run setup, or restart an agent that may make it), or JetStream is not enabled", queue)}
	}
	return brokerError(err)
}

func fullMessage(queue, reason string) string {
	if reason == "lower_than_all" {
		return fmt.Sprintf("queue %s is full (%s), and all that waits there ranks above this message: publish it again when work is done, or at a higher level", queue, reason)
	}
	if reason == "max_bytes" {
		return fmt.Sprintf("queue %s has no room for this message (%s): publish again when work is done, or raise the limit, without which one that is larger by itself never fits", queue, reason)
	}
	return fmt.Sprintf("queue %s is full (%s): publish again when work is done, or raise the limit", queue, reason)
}

// brokerError translates the broker's errors for everybody else.
func brokerError(err error) error {
	var e *api.Error
	var refused *broker.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.Is(err, broker.ErrStreamMissing), errors.As(err, new(*broker.NotPermittedError)):
		return &api.Error{Code: api.CodeBroker, Message: err.Error()}
	case errors.As(err, &refused):
		return refusal(refused)
	}
	return &api.Error{Code: api.CodeBroker, Message: "NATS cannot be reached now; try again in a moment (" + err.Error() + ")"}
}

// refusal tells of a write that JetStream answered with an error. It is no queue_full: no limit of a queue was reached, and what
// is full is full for all queues.
func refusal(r *broker.RefusedError) error {
	why := fmt.Sprintf("%s, JetStream error %d", r.Description, r.Code)
	if errors.Is(r, broker.ErrStoreFull) {
		return &api.Error{
			Code: api.CodeBroker, Reason: broker.StoreFull,
			Message: "JetStream's store is full (" + why + "), and nothing was stored: publish again when work is done, or give it more room (max_file_store of the server, or the account's limit)",
		}
	}
	return &api.Error{Code: api.CodeBroker, Message: "NATS is there, and JetStream refused to store this (" + why + "); nothing was stored: see the log of the NATS server, and try again"}
}

func unknownQueue(queue string) error {
	return &api.Error{Code: api.CodeUnknownQueue, Message: fmt.Sprintf("this agent's file has no queue %q: check the name, or add the queue", queue)}
}

func unknownCapsule(capsule string) error {
	return &api.Error{Code: api.CodeUnknownCapsule, Message: fmt.Sprintf("this agent's file has no capsule %q: check the name, or add the capsule", capsule)}
}
