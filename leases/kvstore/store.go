package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/leases"
)

// Codes of JetStream's answers.
const (
	codeNoMessage     = 10037
	codeNoStream      = 10059
	codeWrongSequence = 10071
	// codeWrongSequenceToo is what a replicated stream says while another write of the same record is on its way.
	codeWrongSequenceToo = 10164
)

// Store is one record of a bucket. It is safe for several goroutines.
type Store struct {
	js      jetstream.JetStream
	nc      *nats.Conn
	bucket  string
	key     string
	subject string
	readAt  string // the API's subject for reads at the leader
	query   []byte
}

// New returns the record under a key of a bucket. The key must be a valid one: of characters that need no encoding.
// Neither has to exist.
func New(js jetstream.JetStream, bucket, key string) *Store {
	subject := "$KV." + bucket + "." + key
	query, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		panic("kvstore: a subject cannot be encoded: " + err.Error()) // strings always can
	}
	return &Store{
		js: js, nc: js.Conn(), bucket: bucket, key: key, subject: subject,
		readAt: "$JS.API.STREAM.MSG.GET." + stream(bucket), query: query,
	}
}

func stream(bucket string) string { return "KV_" + bucket }

type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// Read implements [leases.Store].
func (s *Store) Read(ctx context.Context) (leases.Value, error) {
	answer, err := s.ask(ctx, &nats.Msg{Subject: s.readAt, Data: s.query})
	if err != nil {
		return leases.Value{}, err
	}
	var a struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return leases.Value{}, fmt.Errorf("kvstore: read %s: %w", s.subject, err)
	}
	switch {
	case a.Error != nil && a.Error.Code == codeNoMessage:
		return leases.Value{}, nil
	case a.Error != nil:
		return leases.Value{}, s.refused("read", a.Error)
	case a.Message == nil || a.Message.Sequence == 0:
		return leases.Value{}, fmt.Errorf("kvstore: read %s: an answer without a record", s.subject)
	}
	v := leases.Value{Revision: a.Message.Sequence, Data: a.Message.Data}
	if len(a.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(a.Message.Header)
		if err != nil {
			return leases.Value{}, fmt.Errorf("kvstore: read %s: %w", s.subject, err)
		}
		if header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != "" {
			v.Data = nil
		}
	}
	return v, nil
}

// Swap implements [leases.Store].
func (s *Store) Swap(ctx context.Context, data []byte, revision uint64) (uint64, error) {
	m := &nats.Msg{Subject: s.subject, Data: data, Header: nats.Header{
		"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(revision, 10)},
	}}
	answer, err := s.ask(ctx, m)
	if err != nil {
		return 0, err
	}
	var a struct {
		Error    *apiError `json:"error"`
		Sequence uint64    `json:"seq"`
	}
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return 0, fmt.Errorf("kvstore: write %s: %w", s.subject, err)
	}
	switch {
	case a.Error != nil:
		return 0, s.refused("write", a.Error)
	case a.Sequence == 0:
		return 0, fmt.Errorf("kvstore: write %s: an answer without a revision", s.subject)
	}
	return a.Sequence, nil
}

// ask sends a request, unless it would only lie in a buffer until the connection is back.
func (s *Store) ask(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if !s.nc.IsConnected() {
		return nil, fmt.Errorf("%w: kvstore: %s: no connection", leases.ErrUnavailable, s.subject)
	}
	answer, err := s.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		// For a write this says that no stream took it: the bucket is gone, or has no leader. The read that follows tells.
		return nil, fmt.Errorf("%w: kvstore: %s: %w", leases.ErrUnavailable, s.subject, err)
	case err != nil:
		return nil, fmt.Errorf("kvstore: %s: %w", s.subject, err)
	}
	return answer, nil
}

func (s *Store) refused(what string, e *apiError) error {
	switch e.Code {
	case codeWrongSequence, codeWrongSequenceToo:
		return fmt.Errorf("%w: kvstore: %s %s: %s", leases.ErrConflict, what, s.subject, e.Description)
	case codeNoStream:
		return fmt.Errorf("%w: kvstore: %s %s: %s", leases.ErrGone, what, s.subject, e.Description)
	}
	return fmt.Errorf("kvstore: %s %s: %s (%d)", what, s.subject, e.Description, e.Code)
}
