package clienttest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// said is who has set everything here.
var said = api.Said{Agent: "test-1", At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}

// settings is what operators have set.
type settings struct {
	paused bool
	keys   map[string]bool
	weight map[string]float64
}

// stops tells whether a message may not be taken.
func (s *settings) stops(m *Message) bool { return s.paused || s.keys[m.Key] }

// controls answers the calls of operators on a queue and its keys; false for other calls. The path is read here because a
// key may have no bytes, which a ServeMux would clean away.
func (a *Agent) controls(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(r.URL.EscapedPath(), "/") // "", v1, queues, QUEUE, keys, KEY, VERB
	if len(parts) < 5 || parts[2] != "queues" {
		return false
	}
	queue, _ := url.PathUnescape(parts[3])
	verb := r.Method + " " + parts[len(parts)-1]
	var key *string
	if len(parts) == 7 && parts[4] == "keys" {
		k, _ := url.PathUnescape(parts[5])
		key = &k
	} else if len(parts) != 5 {
		return false
	}
	calls := map[string]func(http.ResponseWriter, *http.Request, *string){
		"POST pause": a.pause, "POST resume": a.pause, "POST purge": a.purge,
		"GET weight": a.weight, "PUT weight": a.weight, "DELETE weight": a.weight,
	}
	call := calls[verb]
	if call == nil || strings.HasSuffix(verb, "weight") && key == nil {
		return false
	}
	if queue != a.Queue {
		fail(w, unknownQueue(queue))
		return true
	}
	call(w, r, key)
	return true
}

func (a *Agent) pause(w http.ResponseWriter, r *http.Request, key *string) {
	out := api.Paused{Queue: a.Queue, Key: key, Paused: strings.HasSuffix(r.URL.Path, "/pause")}
	if out.Paused {
		out.Said = said
	}
	a.update(func() {
		if key == nil {
			a.set.paused = out.Paused
		} else {
			a.set.keys[*key] = out.Paused
		}
	})
	answer(w, http.StatusOK, out)
}

func (a *Agent) weight(w http.ResponseWriter, r *http.Request, key *string) {
	var body struct {
		Weight float64 `json:"weight"`
	}
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Weight <= 0 || body.Weight > 1000 {
			fail(w, &api.Error{Code: api.CodeInvalidWeight, Message: "use a number above 0, at most 1000"})
			return
		}
	}
	out := api.KeyWeight{Queue: a.Queue, Key: *key, Weight: 1, From: api.WeightMessages}
	a.update(func() {
		switch r.Method {
		case http.MethodPut:
			a.set.weight[*key] = body.Weight
		case http.MethodDelete:
			delete(a.set.weight, *key)
		}
		if weight, ok := a.set.weight[*key]; ok {
			out.Weight, out.From, out.Said = weight, api.WeightOverride, said
		}
	})
	answer(w, http.StatusOK, out)
}

func (a *Agent) purge(w http.ResponseWriter, r *http.Request, key *string) {
	query := r.URL.Query()
	most, _ := strconv.Atoi(query.Get("max"))
	until, _ := strconv.ParseUint(query.Get("until"), 10, 64)
	out := api.Purged{Queue: a.Queue, Key: key}
	a.update(func() {
		if until == 0 {
			until = uint64(len(a.messages))
		}
		for _, m := range a.messages {
			if m.taken || m.finished || m.Seq > until || key != nil && m.Key != *key {
				continue
			}
			if out.More = most > 0 && out.Removed == most; out.More {
				break
			}
			m.finished = true
			out.Removed++
		}
	})
	out.Until = until
	answer(w, http.StatusOK, out)
}
