package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/delivery"
)

// settlements reads the list in the body, and checks it. An empty body is an empty list.
func (x *exchange) settlements() ([]api.Settlement, error) {
	b, err := x.readBody(x.limits.SettleBytes, func() *api.Error {
		return &api.Error{Code: api.CodePayloadTooLarge, Message: "the list of settlements is too long: send several"}
	})
	defer b.release()
	if err != nil || len(b.data) == 0 {
		return nil, err
	}
	list, ok := parseSettlements(b.data)
	if !ok {
		d := json.NewDecoder(bytes.NewReader(b.data))
		d.DisallowUnknownFields()
		if err := d.Decode(&list); err != nil {
			return nil, badRequest(`the body is not a list of settlements, such as [{"token":"…","result":"ack"}]: %s`, notRead(err))
		}
		if rest := bytes.TrimSpace(b.data[d.InputOffset():]); len(rest) > 0 {
			return nil, badRequest("the body goes on after the list of settlements: send one JSON array")
		}
	}
	return list, delivery.Check(list)
}

// settle carries out a list of settlements.
func (x *exchange) settle() error {
	if _, err := x.query(); err != nil {
		return err
	}
	list, err := x.settlements()
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, api.SettleResponse{Results: x.carryOut(list)})
}

// carryOut settles, also for a client that leaves. While JetStream is silent each write is tried for some seconds, so many
// of them could take minutes; a client is told before it gives up by itself.
func (x *exchange) carryOut(list []api.Settlement) []api.SettleResult {
	ctx, cancel := context.WithTimeout(x.base, x.limits.SettleTimeout)
	defer cancel()
	return x.Book.Settle(ctx, list)
}

// verb returns the handler of one settlement in the path, for shells.
func verb(result api.Result) func(*exchange) error {
	var names []string
	switch result {
	case api.Nack:
		names = []string{"delay", "reason"}
	case api.Reject:
		names = []string{"reason"}
	case api.Extend:
		names = []string{"lease"}
	}
	return func(x *exchange) error {
		q, err := x.query(names...)
		if err != nil {
			return err
		}
		if err := x.noBody(); err != nil {
			return err
		}
		list := []api.Settlement{{
			Token: x.name, Result: result, Delay: q.Get("delay"), Reason: q.Get("reason"), Lease: q.Get("lease"),
		}}
		if err := delivery.Check(list); err != nil {
			return err
		}
		return x.answerVerb(x.carryOut(list)[0].Status)
	}
}

// answerVerb answers with the status of one settlement.
func (x *exchange) answerVerb(status api.Status) error {
	var message string
	switch status {
	case api.StatusOK:
		x.noContent()
		return nil
	case api.StatusUnknown:
		message = "this agent has not handed out that token, or it was settled more than ten minutes ago"
	case api.StatusAlreadySettled:
		message = "it was settled before"
	case api.StatusExpired:
		message = "its lease had ended, and the message went back to its queue: extend in time, or pull with a longer lease"
	case api.StatusLeaseLost:
		message = "another agent holds the queue's lease now, and the message is its"
	default:
		message = "the broker has not confirmed it: ask again"
	}
	code := http.StatusConflict
	if status == api.StatusUnknown {
		code = http.StatusNotFound
	}
	return x.json(code, api.ErrorBody{Error: &api.Error{Code: api.Code(status), Message: message}})
}
