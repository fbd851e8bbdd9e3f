package broker

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// decode makes a Message of what a lane delivered. It never fails: whatever a raw publisher wrote, the message is
// delivered, and what is unusable in its headers affects it alone.
func (c *Client) decode(lane *Lane, m *nats.Msg, meta *nats.MsgMetadata) *Message {
	both := new(struct { // one piece of memory, for speed
		Message
		hold
	})
	msg := &both.Message
	*msg = Message{
		Queue:      lane.Layout.Queue,
		Seq:        meta.Sequence.Stream,
		Level:      lane.Level,
		Key:        lane.Key,
		Data:       m.Data,
		EnqueuedAt: meta.Timestamp,
		AckWait:    lane.Layout.AckWait,
		Lane:       lane,
		bytes:      int64(m.Size() - len(m.Reply)),
		headed:     len(m.Header) > 0,
		raw:        m,
		reply:      m.Reply,
		delivered:  meta.NumDelivered,
		cseq:       meta.Sequence.Consumer,
		own:        &both.hold,
	}
	if !lane.Layout.Keyed {
		rest := strings.TrimPrefix(m.Subject, c.names.SubjectPrefix(lane.Layout.Queue))
		if _, token, ok := names.Split(rest); ok {
			msg.Key, _ = names.DecodeKey(token) // an unusable key is no key
		}
	}
	if level, _ := names.ClassLevel(lane.Class); level >= lane.Layout.Levels && meta.NumDelivered == 1 {
		c.metrics.UnknownLevels.Add(1)
	}
	if !msg.setHeaders(m.Header) {
		c.metrics.PoisonWeights.Add(1)
	}
	if ttl := lane.Layout.TTL; ttl > 0 && msg.Expires.IsZero() {
		msg.Expires = msg.EnqueuedAt.Add(ttl) // of a raw publisher, or from before the queue had a TTL
	}
	return msg
}

var noHeaders = map[string]string{}

// setHeaders sorts stored headers into what is the message's own and what is the application's. It reports false when
// the weight is unusable.
func (m *Message) setHeaders(h nats.Header) bool {
	var app map[string]string
	usable := true
	set := func(name, value string) {
		if app == nil {
			app = make(map[string]string, len(h)+2)
		}
		app[name] = value
	}
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		value := values[0]
		switch {
		case strings.EqualFold(name, headerOrigin):
			if o, ok := parseOrigin(value); ok {
				set(originStream, o.stream)
				set(originSeq, o.seq)
				set(originSubject, o.subject)
			}
		case hasPrefixFold(name, serverPrefix):
		case strings.EqualFold(name, headerWeight):
			m.Weight, usable = ParseWeight(value)
		case strings.EqualFold(name, headerID):
			m.ID = value
		case strings.EqualFold(name, headerSize):
			m.size, _ = strconv.ParseInt(value, 10, 64)
		case hasPrefixFold(name, originPrefix): // of a message that was moved
			set(strings.ToLower(name), value)
		case strings.EqualFold(name, headerExpires):
			m.Expires = expiryOf(value)
		case strings.EqualFold(name, headerDelayed):
			m.delayed = value
		case hasPrefixFold(name, ownPrefix):
		case strings.EqualFold(name, headerType):
			m.ContentType = value
		case strings.EqualFold(name, headerEncoding) && m.setEncoding(value):
		default:
			set(strings.ToLower(name), value)
		}
	}
	m.Headers = app
	if app == nil {
		m.Headers = noHeaders
	}
	return usable
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
