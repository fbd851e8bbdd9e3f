package socket

import (
	"errors"
	"net/http"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/jsonfield"
	"github.com/fairlead/fairlead/config"
)

// findKey gives p the key that its queue finds in it, when its publisher gave none. A message without it is unkeyed. One
// that cannot be used is told: it would share with messages that it has nothing to do with. A header is looked for among
// the application headers, and then among those of the request, if there is one for the message alone: whoever publishes
// without knowing of keys may not know of Fairlead's headers either.
func findKey(q *config.Queue, p *broker.Publication, request http.Header) error {
	from := q.FairShare.KeyFrom
	if from == nil || p.Key != "" {
		return nil
	}
	if from.Header != "" {
		if p.Key = p.Headers[strings.ToLower(from.Header)]; p.Key == "" {
			p.Key = strings.Join(request.Values(from.Header), ", ")
		}
		return foundKey(checkKey(p.Key), "header "+from.Header)
	}
	where := "field " + from.JSON + " of the payload"
	key, err := jsonfield.Find(p.Data, from.JSON, maxEncodedKey)
	if errors.Is(err, jsonfield.ErrTooLong) {
		return foundKey(invalidKey("the key has more than %d bytes: use a shorter one, or a hash of it", maxEncodedKey), where)
	}
	p.Key = key
	return foundKey(checkKey(key), where)
}

// foundKey says where a key that cannot be used came from: its publisher may not know.
func foundKey(err error, where string) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	return invalidKey("%s, from which the queue takes the key (fair_share.key_from): %s", where, e.Message)
}
