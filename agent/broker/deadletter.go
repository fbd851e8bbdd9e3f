package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/payload"
	"github.com/fairlead/fairlead/fairshare"
)

// headerDead holds what is known of a dead letter besides the message: a deadRecord as JSON.
const headerDead = "Fairlead-Dead"

// deadRecord is why, how and when a message was given up. Its place (queue, level, key, sequence) is in the subject.
type deadRecord struct {
	Reason     DeadReason `json:"reason"`
	Attempts   int        `json:"attempts"`
	Level      int        `json:"level"` // it was served at
	EnqueuedAt time.Time  `json:"enqueued_at,omitzero"`
	Agent      string     `json:"agent,omitempty"` // that moved it
	Error      string     `json:"error,omitempty"` // the last one
}

// deadLetter is what a message looks like in the dead letters: as it was stored, headers and payload, with the record
// beside them and without the server's control headers. It has to be the first on its subject. Its id only serves for the
// time in which the server remembers it: then a move that comes very late stores nothing even if the dead letter was taken
// out again meanwhile.
func (c *Client) deadLetter(m *Message, b Burial) (*nats.Msg, error) {
	if m.raw == nil {
		return nil, fmt.Errorf("%w: message %d of %s was not taken from a lane", ErrDeadLetters, m.Seq, m.Queue)
	}
	class, _, _ := names.Split(strings.TrimPrefix(m.raw.Subject, c.names.SubjectPrefix(m.Queue)))
	token, err := names.EncodeKey(m.Key)
	if err != nil {
		return nil, err
	}
	h := make(nats.Header, len(m.raw.Header)+4)
	for name, values := range m.raw.Header {
		if !hasPrefixFold(name, serverPrefix) && !strings.EqualFold(name, headerDead) {
			h[name] = values
		}
	}
	h[headerMsgID] = []string{strconv.FormatUint(m.Seq, 10)}
	h["Nats-Expected-Last-Subject-Sequence"] = []string{"0"}
	h["Nats-Expected-Stream"] = []string{c.names.DeadStream(m.Queue)}
	letter := &nats.Msg{
		Subject: c.names.DeadPrefix(m.Queue) + class + "." + token + "." + strconv.FormatUint(m.Seq, 10),
		Header:  h, Data: m.raw.Data,
	}
	record := deadRecord{Reason: b.Reason, Attempts: b.Attempts, Level: m.Level, EnqueuedAt: m.EnqueuedAt.UTC(), Agent: c.agent, Error: b.Error}
	h[headerDead] = []string{record.String()}
	if int64(letter.Size()) > c.MaxPayload() { // rather a short record than none
		record.Agent, record.Error = "", ""
		h[headerDead] = []string{record.String()}
	}
	if size := int64(letter.Size()); size > c.MaxPayload() {
		return nil, fmt.Errorf("%w: %w (%d bytes with headers, of %d): raise max_payload of the NATS server a little",
			ErrDeadLetters, ErrTooLarge, size, c.MaxPayload())
	}
	return letter, nil
}

func (r deadRecord) String() string {
	b, _ := json.Marshal(r) // cannot fail: numbers, strings and a time
	return string(b)
}

// DeadLetter is a message that was given up, as it is kept.
type DeadLetter struct {
	Queue string
	Seq   uint64 // the sequence that the message had in its queue: its name among the dead letters
	Level int    // it was served at
	// Unprioritised is true for a message that was published without a priority.
	Unprioritised bool
	Key           string // "" is unkeyed
	Reason        DeadReason
	Attempts      int
	Error         string // the last one, or ""
	EnqueuedAt    time.Time
	DiedAt        time.Time // when the dead letter was stored
	Agent         string    // that moved it
	Weight        fairshare.Weight
	ID            string
	ContentType   string
	Headers       map[string]string // application headers and trace context, names in lower case; never nil
	// Data is the payload as published; as stored when that is compressed and damaged, beside a header content-encoding. It
	// is nil in a list.
	Data []byte
	Size int64 // of Data, in bytes

	class  string // of the original's subject
	token  string // the encoded key
	stored uint64 // sequence in the dead-letter stream
	header nats.Header
	raw    []byte // the payload as stored
}

// readDead reads a dead letter. ok is false for what somebody else has put on a subject of dead letters.
func (c *Client) readDead(queue string, s *wire.Stored) (d *DeadLetter, ok bool) {
	rest, ok := strings.CutPrefix(s.Subject, c.names.DeadPrefix(queue))
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return nil, false
	}
	class, token, ok := names.Split(rest[:i])
	if !ok {
		return nil, false
	}
	level, ok := names.ClassLevel(class)
	if !ok {
		return nil, false
	}
	key, ok := names.DecodeKey(token)
	if !ok {
		return nil, false
	}
	seq, err := strconv.ParseUint(rest[i+1:], 10, 64)
	if err != nil {
		return nil, false
	}
	var record deadRecord
	if json.Unmarshal([]byte(s.Header.Get(headerDead)), &record) != nil {
		return nil, false
	}
	m := Message{Data: s.Data}
	m.setHeaders(s.Header)
	d = &DeadLetter{
		Queue: queue, Seq: seq, Level: record.Level, Unprioritised: level < 0, Key: key, Reason: record.Reason, Attempts: record.Attempts,
		Error: record.Error, EnqueuedAt: record.EnqueuedAt, DiedAt: s.Time, Agent: record.Agent, Weight: m.Weight, ID: m.ID,
		ContentType: m.ContentType, Headers: m.Headers,
		class: class, token: token, stored: s.Seq, header: s.Header, raw: s.Data,
	}
	if n, err := strconv.ParseInt(s.Header.Get(headerMsgSize), 10, 64); err == nil && len(s.Data) == 0 {
		// Only the headers were asked for.
		if d.Size = n; m.Compressed && m.size > 0 {
			d.Size = m.size
		}
		return d, true
	}
	if d.Data, err = m.Payload(0); err != nil {
		d.Data, d.Headers = s.Data, maps.Clone(m.Headers)
		d.Headers["content-encoding"] = payload.Encoding
	}
	d.Size = int64(len(d.Data))
	return d, true
}

// headerMsgSize is how the server tells the size of a payload that it left out.
const headerMsgSize = "Nats-Msg-Size"
