package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// Controls is what operators can set for all agents, and purge. A key that is nil means the whole queue. Errors that
// clients can act on are *api.Error; all block until what was asked for is stored, or until ctx ends.
type Controls interface {
	Pause(ctx context.Context, queue string, key *string) (*api.Paused, error)
	Resume(ctx context.Context, queue string, key *string) (*api.Paused, error)
	// Weight returns what counts for a key now.
	Weight(queue, key string) (*api.KeyWeight, error)
	// SetWeight overrides a key's weight; 0 takes that back.
	SetWeight(ctx context.Context, queue, key string, w fairshare.Weight) (*api.KeyWeight, error)
	// Purge removes what waits: at most so many messages (0: all), up to a sequence (0: the newest one).
	Purge(ctx context.Context, queue string, key *string, most int, until uint64) (*api.Purged, error)
}

// key returns the tenant key in the path; nil when the call has none. It stands there percent-encoded; that of messages
// without a key has no bytes, as in /v1/queues/orders/keys//pause.
func (x *exchange) key() (*string, error) {
	parts := strings.Split(x.r.URL.EscapedPath(), "/")
	for i, p := range x.route.parts {
		if p != "keys" {
			continue
		}
		key, err := url.PathUnescape(parts[i+1])
		if err != nil {
			return nil, badRequest("the path cannot be read: %v", err)
		}
		return &key, checkKey(key)
	}
	return nil, nil
}

// addressed reads a call on a queue or one of its keys that has no parameters. The key is nil when it has none.
func (x *exchange) addressed() (*config.Queue, *string, error) {
	q, err := x.definition()
	if err != nil {
		return nil, nil, err
	}
	key, err := x.key()
	if err != nil {
		return nil, nil, err
	}
	return q, key, nil
}

// needsKeysApart refuses what can be done to single keys only where lanes tell them apart.
func needsKeysApart(q *config.Queue, key *string, what string) error {
	if q.KeysApart() {
		return nil
	}
	return needsFairShare(q, key, what)
}

// needsFairShare refuses what can be done to single keys only where they share.
func needsFairShare(q *config.Queue, key *string, what string) error {
	if key == nil || q.FairShare.Enabled {
		return nil
	}
	return &api.Error{
		Code:    api.CodeNeedsFairShare,
		Message: "queue " + q.Name + " does not share fairly, so its keys are not told apart and " + what + ": set fair_share: true for it, or do it to the whole queue",
	}
}

// pause stops that anything is taken from a queue, or of a key.
func (x *exchange) pause() error {
	q, key, err := x.plain()
	if err != nil {
		return err
	}
	if err := needsKeysApart(q, key, "none can be paused"); err != nil {
		return err
	}
	v, err := x.Controls.Pause(x.r.Context(), x.name, key)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// resume takes a pause back. It works without fair share too: the pause may be from before it was switched off.
func (x *exchange) resume() error {
	_, key, err := x.plain()
	if err != nil {
		return err
	}
	v, err := x.Controls.Resume(x.r.Context(), x.name, key)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// plain is a call that has nothing but its path.
func (x *exchange) plain() (q *config.Queue, key *string, err error) {
	if q, key, err = x.addressed(); err != nil {
		return nil, nil, err
	}
	if _, err := x.query(); err != nil {
		return nil, nil, err
	}
	return q, key, x.noBody()
}

// weight answers with what counts for a key.
func (x *exchange) weight() error {
	_, key, err := x.plain()
	if err != nil {
		return err
	}
	v, err := x.Controls.Weight(x.name, *key)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// setWeight overrides the weight of a key.
func (x *exchange) setWeight() error {
	q, key, err := x.addressed()
	if err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	body, err := x.readBody(4<<10, func() *api.Error { return badRequest(`the body is too long: send {"weight":3}`) })
	defer body.release()
	if err != nil {
		return err
	}
	w, err := readWeight(body.data)
	if err != nil {
		return err
	}
	if err := needsFairShare(q, key, "have no weights"); err != nil {
		return err
	}
	v, err := x.Controls.SetWeight(x.r.Context(), x.name, *key, w)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// readWeight reads {"weight":3}.
func readWeight(text []byte) (fairshare.Weight, error) {
	var v struct {
		Weight *json.Number `json:"weight"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return 0, badRequest(`the body cannot be read (%s): send {"weight":3}`, notRead(err))
	}
	if v.Weight == nil {
		return 0, badRequest(`the body has no weight: send {"weight":3}`)
	}
	return parseWeight(v.Weight.String())
}

// unsetWeight takes an override back.
func (x *exchange) unsetWeight() error {
	_, key, err := x.plain()
	if err != nil {
		return err
	}
	v, err := x.Controls.SetWeight(x.r.Context(), x.name, *key, 0)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// purge removes waiting messages.
func (x *exchange) purge() error {
	d, key, err := x.addressed()
	if err != nil {
		return err
	}
	q, err := x.query("max", "until")
	if err != nil {
		return err
	}
	most, err := integer(q, "max", 1, math.MaxInt32, 0)
	if err != nil {
		return err
	}
	until := uint64(0)
	if text := q.Get("until"); text != "" {
		if until, err = strconv.ParseUint(text, 10, 64); err != nil || until == 0 {
			return badRequest("until=%.64q: use a sequence, as an earlier answer has it", text)
		}
	}
	if err := x.noBody(); err != nil {
		return err
	}
	if err := needsKeysApart(d, key, "none can be purged alone"); err != nil {
		return err
	}
	v, err := x.Controls.Purge(x.r.Context(), x.name, key, most, until)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}
