package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// stored is a message as the stream has it, looked at without taking it.
type stored struct {
	Subject string
	Seq     uint64
	Header  nats.Header
	Data    []byte
	Time    time.Time
}

// look says which message of a stream is wanted: the first one at or after seq, under filter when there is one, which can
// have wildcards; without a filter exactly the one at seq.
type look struct {
	Seq    uint64 `json:"seq,omitempty"`
	Filter string `json:"next_by_subj,omitempty"`
}

const errNoMessage = 10037 // JetStream's answer when there is no such message

// read looks at one message. It asks the stream's leader: a replica may still show what was deleted. It returns nil when
// there is no such message.
func (c *Client) read(ctx context.Context, stream string, l look) (*stored, error) {
	body, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	answer, err := c.api(ctx, "STREAM.MSG.GET."+stream, body)
	if err != nil {
		return nil, fmt.Errorf("broker: reading from %s: %w", stream, err)
	}
	var r struct {
		Error   *apiError `json:"error"`
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
	case r.Error != nil && r.Error.ErrCode == errNoMessage:
		return nil, nil
	case r.Error != nil:
		return nil, fmt.Errorf("broker: reading from %s: %w", stream, r.Error)
	case r.Message == nil:
		return nil, fmt.Errorf("broker: reading from %s: the answer holds no message", stream)
	}
	m := &stored{Subject: r.Message.Subject, Seq: r.Message.Seq, Data: r.Message.Data, Time: r.Message.Time}
	if len(r.Message.Header) > 0 {
		// What does not parse cannot be handed on either; the message itself is worth more than it.
		m.Header, _ = nats.DecodeHeadersMsg(r.Message.Header)
	}
	return m, nil
}

// api sends one request to JetStream's API and returns the answer's body. It waits at most answerWait.
func (c *Client) api(ctx context.Context, what string, body []byte) ([]byte, error) {
	return c.apiWithin(ctx, answerWait, what, body)
}

// apiWithin is api for what may take another time.
func (c *Client) apiWithin(ctx context.Context, limit time.Duration, what string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m := &nats.Msg{Subject: "$JS.API." + what, Data: body}
	answer, err := permitted(ctx, c, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return c.nc.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return nil, translate(err)
	}
	return answer.Data, nil
}

// apiError is a refusal by JetStream's API.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

const errStreamNotFound = 10059

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Unwrap tells a queue without a stream from everything else, which passes by itself or needs an operator.
func (e *apiError) Unwrap() error {
	if e.ErrCode == errStreamNotFound {
		return ErrStreamMissing
	}
	return ErrUnavailable
}
