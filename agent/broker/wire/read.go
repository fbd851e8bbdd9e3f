package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Stored is a message as the stream has it, looked at without taking it.
type Stored struct {
	Subject string
	Seq     uint64
	Header  nats.Header
	Data    []byte
	Time    time.Time
}

// Look says which message of a stream is wanted: the first one at or after seq, under filter when there is one, which can
// have wildcards; without a filter exactly the one at seq.
type Look struct {
	Seq    uint64 `json:"seq,omitempty"`
	Filter string `json:"next_by_subj,omitempty"`
}

const CodeNoMessage = 10037 // JetStream's answer when there is no such message

// Read looks at one message. It asks the stream's leader: a replica may still show what was deleted. It returns nil when
// there is no such message. It has the time that the largest message may take which the server allows; see [Wait].
func (w *Wire) Read(ctx context.Context, stream string, l Look) (*Stored, error) {
	body, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	answer, err := w.APIWithin(ctx, Wait(w.NC.MaxPayload()), "STREAM.MSG.GET."+stream, body)
	if err != nil {
		return nil, fmt.Errorf("broker: reading from %s: %w", stream, err)
	}
	var r struct {
		Error   *APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, fmt.Errorf("broker: reading from %s: %w", stream, err)
	}
	switch {
	case r.Error != nil && r.Error.ErrCode == CodeNoMessage:
		return nil, nil
	case r.Error != nil:
		return nil, fmt.Errorf("broker: reading from %s: %w", stream, r.Error)
	case r.Message == nil:
		return nil, fmt.Errorf("broker: reading from %s: the answer holds no message", stream)
	}
	m := &Stored{Subject: r.Message.Subject, Seq: r.Message.Seq, Data: r.Message.Data, Time: r.Message.Time}
	if len(r.Message.Header) > 0 {
		// What does not parse cannot be handed on either; the message itself is worth more than it.
		m.Header, _ = nats.DecodeHeadersMsg(r.Message.Header)
	}
	return m, nil
}

// API sends one request to JetStream's API and returns the answer's body. It waits at most [AnswerWait].
func (w *Wire) API(ctx context.Context, what string, body []byte) ([]byte, error) {
	return w.APIWithin(ctx, AnswerWait, what, body)
}

// APIWithin is API for what may take another time.
func (w *Wire) APIWithin(ctx context.Context, limit time.Duration, what string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m := &nats.Msg{Subject: "$JS.API." + what, Data: body}
	answer, err := Permitted(ctx, w, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return w.NC.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return nil, Translate(err)
	}
	return answer.Data, nil
}

// APIError is a refusal by JetStream's API.
type APIError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

const CodeStreamNotFound = 10059

// Error implements error.
func (e *APIError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Unwrap tells a queue without a stream from everything else, which passes by itself or needs an operator.
func (e *APIError) Unwrap() error {
	if e.ErrCode == CodeStreamNotFound {
		return ErrStreamMissing
	}
	return ErrUnavailable
}

// LookUp finds the subject and the sequence of a message, without waiting; "" and 0 when there is none.
func (w *Wire) LookUp(stream string, l Look, done func(subject string, seq uint64, err error)) {
	body, _ := json.Marshal(l) // cannot fail: a number and a string
	w.Deletes.Do(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, func(answer *nats.Msg, err error) {
		if err != nil {
			done("", 0, err)
			return
		}
		var r struct {
			Error   *APIError `json:"error"`
			Message struct {
				Subject string `json:"subject"`
				Seq     uint64 `json:"seq"`
			} `json:"message"`
		}
		if err := json.Unmarshal(answer.Data, &r); err != nil {
			done("", 0, fmt.Errorf("broker: reading from %s: %w", stream, err))
			return
		}
		if r.Error != nil && r.Error.ErrCode != CodeNoMessage && r.Error.ErrCode != CodeStreamNotFound {
			done("", 0, fmt.Errorf("broker: reading from %s: %w", stream, r.Error))
			return
		}
		done(r.Message.Subject, r.Message.Seq, nil)
	})
}
