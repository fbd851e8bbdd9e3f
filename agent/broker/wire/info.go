package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// StreamInfo is the part of JetStream's answer that counts subjects.
type StreamInfo struct {
	Error  *APIError `json:"error"`
	Total  int       `json:"total"`
	Offset int       `json:"offset"`
	Limit  int       `json:"limit"`
	Now    time.Time `json:"ts"` // by the server's clock, which also dates messages
	State  struct {
		Messages uint64            `json:"messages"`
		Bytes    uint64            `json:"bytes"`
		FirstSeq uint64            `json:"first_seq"`
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// Subjects describes a stream and counts the messages of each of its subjects under a filter, page by page.
func (w *Wire) Subjects(ctx context.Context, stream, filter string) (*StreamInfo, error) {
	first, err := w.Info(ctx, stream, filter, 0)
	if err != nil {
		return nil, err
	}
	for page := first; page.Limit > 0 && page.Offset+page.Limit < page.Total; {
		if page, err = w.Info(ctx, stream, filter, page.Offset+page.Limit); err != nil {
			return nil, err
		}
		for subject, n := range page.State.Subjects {
			first.State.Subjects[subject] = n
		}
	}
	return first, nil
}

// Info is one page of that; the first one is at offset 0.
func (w *Wire) Info(ctx context.Context, stream, filter string, offset int) (*StreamInfo, error) {
	body, err := json.Marshal(struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset"`
	}{filter, offset})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	m := &nats.Msg{Subject: "$JS.API.STREAM.INFO." + stream, Data: body}
	answer, err := Permitted(ctx, w, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return w.NC.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, Translate(err))
	}
	var info StreamInfo
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, err)
	}
	if info.Error != nil {
		return nil, fmt.Errorf("broker: subjects of %s: %w", stream, info.Error)
	}
	return &info, nil
}
