package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/fairlead/fairlead/agent/api"
)

// Message is what Publish sends. The zero value of every field but Data means: not given, the queue decides.
type Message struct {
	Data     []byte
	Priority string // a level's number, 0 the highest, or its name
	Key      string // tenant key: any UTF-8, at most 128 bytes once the agent has encoded it
	Weight   string // 0 < weight ≤ 1000, at most three decimals
	ID       string // for duplicate suppression within the queue's dedup window, per key

	Delay time.Duration // deliver not before this long from now
	At    time.Time     // or not before then
	TTL   time.Duration // drop it if it was not delivered within this long

	Compress    string            // "gzip": compress this one, whatever the queue says
	ContentType string            // kept, and handed to the consumer
	Headers     map[string]string // application headers; names arrive in lower case
}

// header returns the metadata of m as request headers. What no header can carry is refused as the agent would.
func (m *Message) header() (http.Header, error) {
	h := http.Header{}
	var bad error
	set := func(name, value string) {
		if value != "" {
			if i := strings.IndexFunc(value, unicode.IsControl); i >= 0 {
				bad = &api.Error{Code: api.CodeInvalidHeader, Message: fmt.Sprintf("%s has a control character at byte %d: leave it out", name, i)}
			}
			h[http.CanonicalHeaderKey(name)] = []string{value}
		}
	}
	set(api.HeaderPriority, m.Priority)
	set(api.HeaderKey, escapeKey(m.Key))
	set(api.HeaderWeight, m.Weight)
	set(api.HeaderID, m.ID)
	set(api.HeaderCompress, m.Compress)
	if m.Delay != 0 {
		set(api.HeaderDelay, m.Delay.String())
	}
	if !m.At.IsZero() {
		set(api.HeaderAt, m.At.Format(time.RFC3339Nano))
	}
	if m.TTL != 0 {
		set(api.HeaderTTL, m.TTL.String())
	}
	// Without one, the transport's own guess would be stored as if the publisher had said it.
	h["Content-Type"] = nil
	set("Content-Type", m.ContentType)
	for name, value := range m.Headers {
		switch strings.ToLower(name) {
		case "traceparent", "tracestate":
			set(name, value)
		default:
			if !isToken(name) {
				bad = &api.Error{Code: api.CodeInvalidHeader, Message: fmt.Sprintf("%q cannot name a header: use letters, digits and -", name)}
			}
			set(api.HeaderPrefix+name, value)
			if value == "" { // an application's empty header is one too
				h[http.CanonicalHeaderKey(api.HeaderPrefix+name)] = []string{""}
			}
		}
	}
	return h, bad
}

// isToken reports whether name is a token of RFC 9110, as the names of headers have to be.
func isToken(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// escapeKey percent-encodes key, which the agent always decodes. (PathEscape leaves some bytes alone that are fine in a
// header, and never writes a + for a space.)
func escapeKey(key string) string { return url.PathEscape(key) }

// Publish stores m in queue and returns once JetStream has confirmed it. An *api.Error with outcome_unknown, and
// ErrConnectionLost, mean that it may have been stored; publishing again is safe with an ID.
func (c *Client) Publish(ctx context.Context, queue string, m Message) (api.Published, error) {
	var out api.Published
	header, err := m.header()
	if err != nil {
		return out, err
	}
	err = c.call(ctx, request{
		method: http.MethodPost,
		path:   queuePath(queue) + "/messages",
		body:   bytes.NewReader(m.Data),
		header: header,
	}, &out)
	return out, err
}
