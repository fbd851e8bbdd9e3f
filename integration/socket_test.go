package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

const sigterm = syscall.SIGTERM

// call does one request and returns the whole answer.
func (a *agent) call(client *http.Client, method, path string, body []byte, headers ...string) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(a.t.Context(), method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

// get reads path into v.
func (a *agent) get(path string, v any) {
	a.t.Helper()
	answer, text, err := a.call(a.http, http.MethodGet, path, nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("GET %s: %v %s %s", path, err, status(answer), text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		a.t.Fatalf("GET %s: %v in %s", path, err, text)
	}
}

func status(answer *http.Response) string {
	if answer == nil {
		return "no answer"
	}
	return answer.Status
}

// tryPublish publishes one message and returns the answer: what was stored, or the error.
func (a *agent) tryPublish(queue, payload string, headers ...string) (api.Published, *api.Error) {
	a.t.Helper()
	answer, text, err := a.call(a.http, http.MethodPost, "/v1/queues/"+queue+"/messages", []byte(payload), headers...)
	if err != nil {
		a.t.Fatalf("publish: %v", err)
	}
	if answer.StatusCode == http.StatusCreated {
		var stored api.Published
		if err := json.Unmarshal(text, &stored); err != nil {
			a.t.Fatalf("publish: %v in %s", err, text)
		}
		return stored, nil
	}
	return api.Published{}, a.refusal(answer, text)
}

// refusal reads an error's body, and checks that it has the form of all errors.
func (a *agent) refusal(answer *http.Response, text []byte) *api.Error {
	a.t.Helper()
	var body api.ErrorBody
	if err := json.Unmarshal(text, &body); err != nil || body.Error == nil || body.Error.Code == "" || body.Error.Message == "" {
		a.t.Fatalf("%s with the body %q, want an error with code and message", answer.Status, text)
	}
	if want := body.Error.Code.HTTPStatus(); answer.StatusCode != want {
		a.t.Errorf("%s has status %d, want %d", body.Error.Code, answer.StatusCode, want)
	}
	return body.Error
}

// publish publishes one message that must be stored.
func (a *agent) publish(queue, payload string, headers ...string) api.Published {
	a.t.Helper()
	stored, refused := a.tryPublish(queue, payload, headers...)
	if refused != nil {
		a.t.Fatalf("publish %q %q: %v", payload, headers, refused)
	}
	return stored
}

// A note is what tests publish in a batch.
type note struct {
	Data     string `json:"data"`
	Priority any    `json:"priority,omitempty"` // a number or a name; nil is none
	Key      string `json:"key,omitempty"`
	Weight   any    `json:"weight,omitempty"`
	ID       string `json:"id,omitempty"`
}

// notes makes n messages alike, numbered from 0 after the name.
func notes(n int, name string, like note) []note {
	all := make([]note, n)
	for i := range all {
		all[i] = like
		all[i].Data = fmt.Sprintf("%s%d", name, i)
	}
	return all
}

// batch publishes all, each of which must be stored.
func (a *agent) batch(queue string, all ...note) {
	a.t.Helper()
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, n := range all {
		if err := encoder.Encode(n); err != nil {
			a.t.Fatal(err)
		}
	}
	results := a.batchText(queue, body.Bytes())
	if len(results) != len(all) {
		a.t.Fatalf("batch of %d was answered with %d lines", len(all), len(results))
	}
	for i, r := range results {
		if r.Error != nil || r.Seq == 0 {
			a.t.Fatalf("batch: line %d: %+v", i+1, r.Error)
		}
	}
}

// batchText publishes lines as they are.
func (a *agent) batchText(queue string, body []byte) []api.BatchResult {
	a.t.Helper()
	answer, text, err := a.call(a.http, http.MethodPost, "/v1/queues/"+queue+"/batch", body)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("batch: %v %s %s", err, status(answer), text)
	}
	var results []api.BatchResult
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var r api.BatchResult
		if err := lines.Decode(&r); err != nil {
			a.t.Fatalf("batch: %v", err)
		}
		results = append(results, r)
	}
	return results
}

// A session is held open until it is closed.
type session struct {
	id     string
	events chan api.Event // pings left out; closed when the connection has ended
	body   io.ReadCloser
}

// session opens one.
func (a *agent) session() *session {
	a.t.Helper()
	answer, err := a.client().Get("http://agent/v1/session")
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("session: %v %s", err, status(answer))
	}
	s := &session{events: make(chan api.Event, 1024), body: answer.Body}
	a.t.Cleanup(s.close)
	lines := bufio.NewScanner(answer.Body)
	var first api.Event
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Session == "" {
		a.t.Fatalf("session begins with %q, want its id", lines.Text())
	}
	s.id = first.Session
	go func() {
		defer close(s.events)
		for lines.Scan() {
			var e api.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Event != "ping" {
				s.events <- e
			}
		}
	}()
	return s
}

// close ends the session's connection.
func (s *session) close() { _ = s.body.Close() }

// data returns the payloads.
func data(all []api.Delivery) []string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = string(all[i].Payload())
	}
	return texts
}

// queue returns a queue's status.
func (a *agent) queue(name string) api.QueueStatus {
	a.t.Helper()
	var q api.QueueStatus
	a.get("/v1/queues/"+name, &q)
	return q
}

// capsule returns a capsule's status.
func (a *agent) capsule(name string) api.CapsuleStatus {
	a.t.Helper()
	var s api.AgentStatus
	a.get("/v1/status", &s)
	for _, c := range s.Capsules {
		if c.Name == name {
			return c
		}
	}
	a.t.Fatalf("status has no capsule %s", name)
	return api.CapsuleStatus{}
}

// letters is how orders are compared: the first byte of each payload.
func letters(all []api.Delivery) string {
	var text strings.Builder
	for _, d := range data(all) {
		text.WriteByte(d[0])
	}
	return text.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) }

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
