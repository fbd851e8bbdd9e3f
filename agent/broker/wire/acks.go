package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// PubAck is JetStream's answer to a publish.
type PubAck struct {
	Error *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
	Sequence  uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
}

// ParseAck reads JetStream's answer to a write. What cannot be read leaves the outcome unknown.
func ParseAck(answer *nats.Msg) (PubAck, error) {
	var ack PubAck
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return ack, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	if ack.Error != nil {
		return ack, refusal(ack)
	}
	return ack, nil
}

// refusal translates JetStream's reason for not storing a message. All limits share one code; only the words differ.
func refusal(a PubAck) error {
	e := a.Error
	switch {
	case e.ErrCode == 10077 && strings.Contains(e.Description, "messages per subject"):
		return &FullError{Reason: FullKey}
	case e.ErrCode == 10077 && strings.Contains(e.Description, "maximum messages"):
		return &FullError{Reason: FullMessages}
	case e.ErrCode == 10077 && strings.Contains(e.Description, "maximum bytes"):
		return &FullError{Reason: FullBytes}
	case e.ErrCode == 10071, e.ErrCode == 10164:
		return ErrConflict
	case e.ErrCode == 10054:
		return fmt.Errorf("%w: %s", ErrTooLarge, e.Description)
	}
	return &RefusedError{Code: e.ErrCode, Description: e.Description}
}

// Sequence is the sequence that the server wrote into a message's headers, behind whatever its publisher wrote.
func Sequence(h nats.Header) uint64 {
	values := h["Nats-Sequence"]
	if len(values) == 0 {
		return 0
	}
	seq, _ := strconv.ParseUint(values[len(values)-1], 10, 64)
	return seq
}

// ExpectLast makes JetStream refuse a write, with [ErrConflict], unless the last one on its subject has this sequence; 0 is none.
func ExpectLast(revision uint64) nats.Header {
	return nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(revision, 10)}}
}
