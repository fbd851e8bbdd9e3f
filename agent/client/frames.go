package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/agent/api"
)

// A frame is: u32 length of the rest, u32 length of the metadata, metadata, payload; big-endian. The metadata is the
// JSON object that NDJSON has, without its data.

var (
	errFrameShort  = errors.New("a frame is cut off")
	errFrameLength = errors.New("a frame's metadata is longer than the frame")
)

// settleFailedPrefix begins the one object that is not a delivery; the first of an answer may be it.
var settleFailedPrefix = []byte(`{"settle_failed"`)

// decodeFrames reads the frames of body into out. Payloads point into body.
func decodeFrames(body []byte, out *PullResult) error {
	for first := true; len(body) > 0; first = false {
		meta, payload, rest, err := cutFrame(body)
		if err != nil {
			return err
		}
		body = rest
		if first && bytes.HasPrefix(meta, settleFailedPrefix) {
			if err := decodeSettleFailed(meta, out); err != nil {
				return err
			}
			continue
		}
		d, err := addDelivery(meta, out)
		if err != nil {
			return err
		}
		d.Data, d.DataBase64 = nil, payload
	}
	return nil
}

// cutFrame splits the first frame off b. Lengths are compared as uint64, so that no pair of them can wrap around.
func cutFrame(b []byte) (meta, payload, rest []byte, err error) {
	if len(b) < 8 {
		return nil, nil, nil, errFrameShort
	}
	length, metaLength := uint64(binary.BigEndian.Uint32(b)), uint64(binary.BigEndian.Uint32(b[4:]))
	switch {
	case length < 4 || metaLength > length-4:
		return nil, nil, nil, errFrameLength
	case length > uint64(len(b)-4):
		return nil, nil, nil, errFrameShort
	}
	frame := b[8 : 4+length : 4+length]
	return frame[:metaLength:metaLength], frame[metaLength:], b[4+length:], nil
}

// decodeLines reads the NDJSON of body into out.
func decodeLines(body []byte, out *PullResult) error {
	for first := true; len(body) > 0; first = false {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if first && bytes.HasPrefix(line, settleFailedPrefix) {
			if err := decodeSettleFailed(line, out); err != nil {
				return err
			}
			continue
		}
		if _, err := addDelivery(line, out); err != nil {
			return err
		}
	}
	return nil
}

func decodeSettleFailed(text []byte, out *PullResult) error {
	var failed api.SettleFailed
	if err := json.Unmarshal(text, &failed); err != nil {
		return fmt.Errorf("settle_failed: %w", err)
	}
	out.SettleFailed = failed.SettleFailed
	return nil
}

// addDelivery decodes text into a new last delivery of out.
func addDelivery(text []byte, out *PullResult) (*api.Delivery, error) {
	if out.Deliveries == nil {
		out.Deliveries = make([]api.Delivery, 0, 64)
	}
	n := len(out.Deliveries)
	out.Deliveries = append(out.Deliveries, api.Delivery{})
	d := &out.Deliveries[n]
	var previous *api.Delivery
	if n > 0 {
		previous = &out.Deliveries[n-1]
	}
	if err := parseDelivery(text, d, previous); err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	if d.Token == "" {
		return nil, errors.New("delivery: it has no token")
	}
	if d.Headers == nil {
		d.Headers = map[string]string{}
	}
	return d, nil
}
