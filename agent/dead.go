package agent

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// maxDeadFailed is how many failures one answer lists.
const maxDeadFailed = 1000

// Dead implements socket.DeadLetters.
func (e engine) Dead(ctx context.Context, queue string, most int) (*api.DeadList, error) {
	found, err := e.a.client.DeadLetters(ctx, queue, most)
	if err != nil {
		return nil, brokerError(err)
	}
	list := &api.DeadList{Dead: []api.DeadLetter{}}
	for _, d := range found {
		list.Dead = append(list.Dead, deadLetter(d))
	}
	if list.Total, err = e.a.client.DeadCount(ctx, queue); err != nil {
		return nil, brokerError(err)
	}
	list.Total = max(list.Total, uint64(len(list.Dead)))
	return list, nil
}

// DeadLetter implements socket.DeadLetters.
func (e engine) DeadLetter(ctx context.Context, queue string, seq uint64) (*api.DeadLetter, error) {
	d, err := e.a.client.DeadLetter(ctx, queue, seq)
	if err != nil {
		return nil, deadError(queue, seq, err)
	}
	v := deadLetter(d)
	if utf8.Valid(d.Data) {
		text := string(d.Data)
		v.Data = &text
	} else {
		v.DataBase64 = d.Data
	}
	return &v, nil
}

func deadLetter(d *broker.DeadLetter) api.DeadLetter {
	return api.DeadLetter{
		Queue: d.Queue, Seq: d.Seq, Priority: d.Level, Unprioritised: d.Unprioritised, Key: d.Key, Reason: string(d.Reason),
		Attempts: d.Attempts, LastError: d.Error, EnqueuedAt: d.EnqueuedAt.UTC(), DiedAt: d.DiedAt.UTC(), Agent: d.Agent, ID: d.ID,
		Weight: float64(d.Weight) / 1000, ContentType: d.ContentType, Headers: d.Headers, Size: d.Size,
	}
}

// RetryDead implements socket.DeadLetters.
func (e engine) RetryDead(ctx context.Context, queue string, r api.DeadRetry, level *int) (*api.DeadRetried, error) {
	def, ok := e.a.definition(queue)
	if !ok {
		return nil, unknownQueue(queue)
	}
	t := &deadRetry{e: e, def: def, level: level, done: api.DeadRetried{Failed: []api.DeadFailed{}}}
	if r.All {
		t.all(ctx, r)
	} else {
		t.some(ctx, r.Seqs)
	}
	return &t.done, t.err
}

// deadRetry is one retry under way.
type deadRetry struct {
	e     engine
	def   config.Queue
	level *int
	done  api.DeadRetried
	err   error // why nothing could be looked at
}

// some puts back those with these numbers. After one for which there is no room, and nobody to ask, the others are not
// tried.
func (t *deadRetry) some(ctx context.Context, seqs []uint64) {
	var stop *api.Error
	for _, seq := range seqs {
		if stop != nil {
			_ = t.failed(seq, stop)
			continue
		}
		d, err := t.e.a.client.DeadLetter(ctx, t.def.Name, seq)
		if err != nil {
			err = deadError(t.def.Name, seq, err)
		} else {
			err = t.one(ctx, d)
		}
		if err != nil {
			if refused := t.failed(seq, err); stops(refused) {
				stop = refused
			}
		}
	}
}

// all walks along, from a position, as far as there is room. What dies meanwhile is left: it may be what was just put back,
// and without end.
func (t *deadRetry) all(ctx context.Context, r api.DeadRetry) {
	until, at := r.Until, r.From
	if until == 0 {
		var err error
		if until, err = t.e.a.client.LastDeadLetter(ctx, t.def.Name); err != nil {
			t.err = brokerError(err)
			return
		}
	}
	defer func() {
		if t.done.Next > until {
			t.done.Next = 0
		}
		if t.done.Next > 0 {
			t.done.Until = until
		}
	}()
	for n := 0; r.Max == 0 || n < r.Max; n++ {
		d, next, err := t.e.a.client.NextDeadLetter(ctx, t.def.Name, at)
		if err != nil {
			if t.done.Next = at; n == 0 {
				t.err = brokerError(err)
			}
			return
		}
		if d == nil || next > until+1 {
			t.done.Next = 0
			return
		}
		if err := t.one(ctx, d); err != nil {
			if refused := t.failed(d.Seq, err); stops(refused) || len(t.done.Failed) >= maxDeadFailed {
				t.done.Next = next
				return
			}
		}
		at = next
		t.done.Next = at
	}
}

// one puts one back, and lets the capsules know before its operator does.
func (t *deadRetry) one(ctx context.Context, d *broker.DeadLetter) error {
	receipt, err := t.e.a.client.RetryDeadLetter(ctx, t.def, d, t.level)
	if err != nil {
		return publishError(t.def.Name, err)
	}
	t.done.Retried++
	p := broker.Publication{Level: receipt.Level, Key: d.Key, Weight: d.Weight}
	if d.Unprioritised && t.level == nil && t.def.DeadLetters.RetryPriority == nil {
		p.Level = -1
	}
	t.e.stored(t.def.Name, p, receipt, nil)
	return nil
}

func (t *deadRetry) failed(seq uint64, err error) *api.Error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		refused = &api.Error{Code: api.CodeBroker, Message: err.Error()}
	}
	t.done.Failed = append(t.done.Failed, api.DeadFailed{Seq: seq, Error: refused})
	return refused
}

// stops tells whether the next one would be refused for the same reason.
func stops(e *api.Error) bool {
	switch e.Code {
	case api.CodeQueueFull:
		return e.Reason != "max_messages_per_key"
	case api.CodeBroker, api.CodeOutcomeUnknown:
		return true
	}
	return false
}

// PurgeDead implements socket.DeadLetters.
func (e engine) PurgeDead(ctx context.Context, queue string) (*api.DeadPurged, error) {
	n, err := e.a.client.PurgeDeadLetters(ctx, queue)
	if err != nil {
		return nil, brokerError(err)
	}
	e.a.log.Info("the dead letters of a queue were purged", "queue", queue, "messages", n)
	return &api.DeadPurged{Purged: n}, nil
}

// deadError translates the broker's errors for whoever named a dead letter.
func deadError(queue string, seq uint64, err error) error {
	if errors.Is(err, broker.ErrNoDeadLetter) {
		return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf(
			"queue %s has no dead letter %d: it was tried again, purged or grew too old, or never was there; the list shows what there is", queue, seq)}
	}
	return brokerError(err)
}
