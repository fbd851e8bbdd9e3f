package clienttest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/queues/{queue}/messages", a.publish)
	mux.HandleFunc("POST /v1/queues/{queue}/batch", a.batch)
	mux.HandleFunc("POST /v1/capsules/{capsule}/pull", a.pull)
	mux.HandleFunc("POST /v1/settle", a.settleCall)
	mux.HandleFunc("GET /v1/session", a.session)
	mux.HandleFunc("GET /v1/status", a.status)
	mux.HandleFunc("GET /v1/overview", a.overview)
	mux.HandleFunc("GET /v1/queues", a.queues)
	mux.HandleFunc("GET /v1/queues/{queue}", a.queue)
	mux.HandleFunc("GET /v1/queues/{queue}/peek", a.peek)
	mux.HandleFunc("GET /v1/queues/{queue}/delayed", a.listDelayed)
	mux.HandleFunc("DELETE /v1/queues/{queue}/delayed/{handle}", a.cancelDelayed)
	mux.HandleFunc("POST /v1/drain", a.drain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var broken *api.Error
		state := api.StateActive
		a.update(func() {
			a.requests++
			broken = a.broken
			if a.draining {
				state = api.StateDraining
			}
		})
		w.Header().Set(api.HeaderState, state)
		if broken != nil && r.URL.Path != "/v1/status" {
			fail(w, broken)
			return
		}
		if !a.controls(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

func unknownQueue(name string) *api.Error {
	return &api.Error{Code: api.CodeUnknownQueue, Message: "no queue is called " + strconv.Quote(name)}
}

func fail(w http.ResponseWriter, err *api.Error) {
	answer(w, err.Code.HTTPStatus(), api.ErrorBody{Error: err})
}

func answer(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body)
	w.Header().Set("Content-Type", api.TypeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// level resolves a number or a name.
func (a *Agent) level(s string) (int, *api.Error) {
	if s == "" {
		return (len(a.Levels) - 1) / 2, nil
	}
	for i, name := range a.Levels {
		if s == name || s == strconv.Itoa(i) {
			return i, nil
		}
	}
	return 0, &api.Error{Code: api.CodePriority, Message: "no level is called " + strconv.Quote(s)}
}

func (a *Agent) publish(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("queue") != a.Queue {
		fail(w, unknownQueue(r.PathValue("queue")))
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	level, bad := a.level(r.Header.Get(api.HeaderPriority))
	if bad != nil {
		fail(w, bad)
		return
	}
	key, _ := url.PathUnescape(r.Header.Get(api.HeaderKey))
	weight, _ := strconv.ParseFloat(r.Header.Get(api.HeaderWeight), 64)
	m := &Message{Weight: weight, Delivery: api.Delivery{
		Priority: level, Key: key, ID: r.Header.Get(api.HeaderID), ContentType: r.Header.Get("Content-Type"),
		DataBase64: data, Headers: map[string]string{},
	}}
	for name, values := range r.Header {
		if rest, ok := strings.CutPrefix(name, api.HeaderPrefix); ok {
			m.Headers[strings.ToLower(rest)] = values[0]
		}
	}
	if after, err := time.ParseDuration(r.Header.Get(api.HeaderDelay)); err == nil && after > 0 {
		answer(w, http.StatusCreated, api.Published{Queue: a.Queue, Priority: level, Key: key, Delayed: a.delay(m, after)})
		return
	}
	seq, duplicate := a.store(m)
	answer(w, http.StatusCreated, api.Published{Queue: a.Queue, Priority: level, Key: key, Seq: seq, Duplicate: duplicate})
}

func (a *Agent) batch(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("queue") != a.Queue {
		fail(w, unknownQueue(r.PathValue("queue")))
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Content-Type", api.TypeNDJSON)
	lines := bufio.NewReader(r.Body)
	encoder := json.NewEncoder(w)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			_ = encoder.Encode(a.batchLine(line))
			if lines.Buffered() == 0 {
				_ = http.NewResponseController(w).Flush()
			}
		}
		if err != nil {
			return
		}
	}
}

func (a *Agent) batchLine(line []byte) api.BatchResult {
	var in api.BatchMessage
	if err := json.Unmarshal(line, &in); err != nil {
		return api.BatchResult{Error: &api.Error{Code: api.CodeBadRequest, Message: err.Error()}}
	}
	level, bad := a.level(strings.Trim(string(in.Priority), `"`))
	if bad != nil {
		return api.BatchResult{Error: bad}
	}
	var text string
	if json.Unmarshal(in.Data, &text) != nil {
		text = string(in.Data)
	}
	weight, _ := strconv.ParseFloat(string(in.Weight), 64)
	seq, duplicate := a.store(&Message{Weight: weight, Delivery: api.Delivery{
		Priority: level, Key: in.Key, ID: in.ID, DataBase64: []byte(text), Headers: map[string]string{},
	}})
	return api.BatchResult{Seq: seq, Duplicate: duplicate}
}

func (a *Agent) pull(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.PathValue("capsule") != a.Queue {
		fail(w, &api.Error{Code: api.CodeUnknownCapsule, Message: "no such capsule"})
		return
	}
	session := q.Get("session")
	a.mu.Lock()
	_, known := a.sessions[session]
	a.mu.Unlock()
	if session != "" && !known {
		fail(w, &api.Error{Code: api.CodeUnknownSession, Message: "open one with GET /v1/session"})
		return
	}
	var settlements []api.Settlement
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		if err := json.Unmarshal(body, &settlements); err != nil {
			fail(w, &api.Error{Code: api.CodeBadRequest, Message: err.Error()})
			return
		}
	}
	var failed []api.SettleResult
	settle := func() {
		for _, result := range a.settle(settlements) {
			if result.Status != api.StatusOK {
				failed = append(failed, result)
			}
		}
	}
	if a.SettleLate {
		defer settle()
	} else {
		settle()
	}
	limit, _ := strconv.Atoi(q.Get("max"))
	lease := time.Minute
	if d, err := time.ParseDuration(q.Get("lease")); err == nil {
		lease = d
	}
	wait, _ := time.ParseDuration(q.Get("wait"))
	messages := a.await(r, max(limit, 1), wait, lease, session, len(failed) > 0)
	if len(messages) == 0 && len(failed) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.deliver(w, r.Header.Get("Accept") == api.TypeFrames, messages, failed)
}

// await takes up to limit messages, and waits for the first.
func (a *Agent) await(r *http.Request, limit int, wait, lease time.Duration, session string, hurry bool) []*Message {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		a.mu.Lock()
		changed, draining := a.changed, a.draining
		a.mu.Unlock()
		if messages := a.take(limit, lease, session); len(messages) > 0 || hurry || draining {
			return messages
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

func (a *Agent) deliver(w http.ResponseWriter, frames bool, messages []*Message, failed []api.SettleResult) {
	var out []byte
	put := func(meta any, payload []byte) {
		text, _ := json.Marshal(meta)
		if !frames {
			out = append(append(out, text...), '\n')
			return
		}
		out = binary.BigEndian.AppendUint32(out, uint32(4+len(text)+len(payload)))
		out = binary.BigEndian.AppendUint32(out, uint32(len(text)))
		out = append(append(out, text...), payload...)
	}
	if len(failed) > 0 {
		put(api.SettleFailed{SettleFailed: failed}, nil)
	}
	for _, m := range messages {
		d := m.Delivery
		payload := d.DataBase64
		if frames {
			d.DataBase64 = nil
		} else if utf8.Valid(payload) {
			text := string(payload)
			d.Data, d.DataBase64 = &text, nil
		}
		put(d, payload)
	}
	w.Header().Set("Content-Type", api.TypeNDJSON)
	if frames {
		w.Header().Set("Content-Type", api.TypeFrames)
	}
	_, _ = w.Write(out)
}

func (a *Agent) settleCall(w http.ResponseWriter, r *http.Request) {
	var settlements []api.Settlement
	if err := json.NewDecoder(r.Body).Decode(&settlements); err != nil {
		fail(w, &api.Error{Code: api.CodeBadRequest, Message: err.Error()})
		return
	}
	answer(w, http.StatusOK, api.SettleResponse{Results: a.settle(settlements)})
}

func (a *Agent) session(w http.ResponseWriter, r *http.Request) {
	events := make(chan api.Event, 64)
	var id string
	a.update(func() {
		a.tokens++
		id = "s" + strconv.Itoa(a.tokens)
		a.sessions[id] = events
	})
	defer a.update(func() {
		delete(a.sessions, id)
		for _, m := range a.messages {
			if m.session == id && !m.finished {
				m.taken = false
			}
		}
	})
	w.Header().Set("Content-Type", api.TypeNDJSON)
	encoder := json.NewEncoder(w)
	for e := (api.Event{Session: id}); ; {
		if encoder.Encode(e) != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case e = <-events:
		case <-r.Context().Done():
			return
		}
	}
}
