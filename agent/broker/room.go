package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// room is how full a queue's stream is, and what its limits are, as its leader says. A limit of 0 or less is none.
type room struct {
	messages, bytes int64
	ofSubject       int64 // messages on the subject that was asked about
	maxMessages     int64
	maxBytes        int64
	maxOfSubject    int64
	memory          bool // stored in memory: counted in another way
}

// missing is what a message lacks to be stored; what is 0 or less is there.
type missing struct {
	messages  int64 // that must go first
	bytes     int64 // that must go first
	ofSubject int64 // messages on its own subject that must go first
}

func (m missing) nothing() bool { return m.messages <= 0 && m.bytes <= 0 && m.ofSubject <= 0 }

// less is what is still missing when one more message goes.
func (m missing) less(bytes int64) missing {
	m.messages--
	m.bytes -= bytes
	return m
}

// of is what a message of so many bytes lacks.
func (r room) of(size int64) missing {
	var m missing
	if r.maxMessages > 0 {
		m.messages = r.messages + 1 - r.maxMessages
	}
	if r.maxBytes > 0 {
		m.bytes = r.bytes + size - r.maxBytes
	}
	if r.maxOfSubject > 0 {
		m.ofSubject = r.ofSubject + 1 - r.maxOfSubject
	}
	return m
}

// never tells whether a message is bigger than the whole queue may be.
func (r room) never(size int64) bool { return r.maxBytes > 0 && size > r.maxBytes }

// size is what JetStream counts for a message whose subject, headers and payload have so many bytes.
func (r room) size(bytes int64, headers bool) int64 {
	switch {
	case r.memory:
		return bytes + 16
	case headers:
		return bytes + 34
	}
	return bytes + 30
}

func (r room) sizeOf(m *nats.Msg) int64 {
	return r.size(int64(m.Size()-len(m.Reply)), len(m.Header) > 0)
}

// room asks how full a queue is.
func (c *Client) room(ctx context.Context, stream, subject string) (room, error) {
	body, err := json.Marshal(map[string]string{"subjects_filter": subject})
	if err != nil {
		return room{}, fmt.Errorf("broker: %w", err)
	}
	answer, err := c.wire.API(ctx, "STREAM.INFO."+stream, body)
	if err != nil {
		return room{}, fmt.Errorf("broker: room in %s: %w", stream, err)
	}
	var r struct {
		Error  *wire.APIError `json:"error"`
		Config struct {
			MaxMessages  int64  `json:"max_msgs"`
			MaxBytes     int64  `json:"max_bytes"`
			MaxOfSubject int64  `json:"max_msgs_per_subject"`
			Storage      string `json:"storage"`
		} `json:"config"`
		State struct {
			Messages int64            `json:"messages"`
			Bytes    int64            `json:"bytes"`
			Subjects map[string]int64 `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return room{}, fmt.Errorf("broker: room in %s: %w", stream, err)
	}
	if r.Error != nil {
		return room{}, fmt.Errorf("broker: room in %s: %w", stream, r.Error)
	}
	return room{
		messages: r.State.Messages, bytes: r.State.Bytes, ofSubject: r.State.Subjects[subject],
		maxMessages: r.Config.MaxMessages, maxBytes: r.Config.MaxBytes, maxOfSubject: r.Config.MaxOfSubject,
		memory: r.Config.Storage == "memory",
	}, nil
}
