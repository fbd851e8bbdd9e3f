package socket

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// definition returns the queue in the path.
func (x *exchange) definition() (*config.Queue, error) {
	q, ok := x.Publisher.Definition(x.name)
	if !ok {
		return nil, &api.Error{Code: api.CodeUnknownQueue, Message: fmt.Sprintf("there is no queue %.64q: GET /v1/queues lists those of this agent", x.name)}
	}
	return &q, nil
}

// payloadLimit returns the most bytes that a payload of q may have.
func (s *Server) payloadLimit(q *config.Queue) int64 {
	if q.Limits.MaxPayload > 0 {
		return min(q.Limits.MaxPayload, s.limits.BodyBytes)
	}
	return s.limits.BodyBytes
}

func payloadTooLarge(queue string, limit int64) *api.Error {
	return &api.Error{Code: api.CodePayloadTooLarge, Message: fmt.Sprintf("a message of queue %s may have %d bytes: store the data elsewhere and publish where it is", queue, limit)}
}

// publish stores one message.
func (x *exchange) publish() error {
	if err := x.may(x.Publishers); err != nil {
		return err
	}
	q, err := x.definition()
	if err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	p, err := readMetadata(q, x.r.Header)
	if err != nil {
		return err
	}
	limit := x.payloadLimit(q)
	b, err := x.readBody(limit, func() *api.Error { return payloadTooLarge(q.Name, limit) })
	defer b.release()
	if err != nil {
		return err
	}
	p.Data = b.data
	if err := findKey(q, &p, x.r.Header); err != nil {
		return err
	}
	// The message is here as a whole: a client that leaves now does not take it back.
	receipt, err := x.Publisher.Publish(x.base, q.Name, p)
	if err != nil {
		return err
	}
	return x.json(http.StatusCreated, api.Published{
		Queue: q.Name, Priority: receipt.Level, Key: p.Key, Seq: receipt.Seq, Delayed: receipt.Delayed, Duplicate: receipt.Duplicate,
	})
}

// readMetadata reads a message's metadata from the request's headers.
func readMetadata(q *config.Queue, h http.Header) (broker.Publication, error) {
	p := broker.Publication{Level: -1}
	var t timing
	var set headerSet
	// In order, so that of several mistakes the same one is told each time.
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := readHeader(&p, &t, &set, q, header{name, h[name]}); err != nil {
			return p, err
		}
	}
	p.Headers = set.headers
	return p, t.read(&p, q, time.Now())
}

// header is one header of a request with all its values.
type header struct {
	name   string
	values []string
}

// readHeader takes what one header says of the message. Other headers than Fairlead's and three more are the connection's
// business.
func readHeader(p *broker.Publication, t *timing, set *headerSet, q *config.Queue, h header) error {
	name := strings.ToLower(h.name)
	if app, ok := strings.CutPrefix(name, "fairlead-header-"); ok {
		return set.add(app, strings.Join(h.values, ", "))
	}
	own := strings.HasPrefix(name, "fairlead-")
	if !own && name != "content-type" && name != "traceparent" && name != "tracestate" {
		return nil
	}
	value := h.values[0]
	if len(h.values) > 1 {
		if name != "tracestate" { // the only one that may be split (W3C Trace Context)
			return invalidHeader("%s is given %d times: give it once", h.name, len(h.values))
		}
		value = strings.Join(h.values, ",")
	}
	if value == "" { // not given
		return nil
	}
	switch name {
	case "content-type":
		p.ContentType = value
		return checkText("Content-Type", value, maxValue)
	case "traceparent", "tracestate":
		set.set(name, value)
		return checkText(name, value, maxValue)
	}
	return readOwn(p, t, q, name, value)
}

// readOwn takes one of Fairlead's own headers.
func readOwn(p *broker.Publication, t *timing, q *config.Queue, name, value string) (err error) {
	switch name {
	case "fairlead-priority":
		p.Level, err = parseLevel(q, value)
	case "fairlead-key":
		p.Key, err = decodeKey(value)
	case "fairlead-weight":
		p.Weight, err = parseWeight(value)
	case "fairlead-id":
		p.ID, err = value, checkText(api.HeaderID, value, maxID)
	case "fairlead-delay":
		t.delay = value
	case "fairlead-at":
		t.at = value
	case "fairlead-ttl":
		t.ttl = value
	case "fairlead-compress":
		p.Compress, err = parseCompress(value)
	default:
		return invalidHeader("header %.64q is unknown: application headers begin with %s", name, api.HeaderPrefix)
	}
	return err
}

// apiError returns err as one of the API's.
func (x *exchange) apiError(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	return x.unexpected(err)
}
