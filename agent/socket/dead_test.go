package socket

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

func TestDeadLetterCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Face = Admin })
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/v1/queues/orders/dead", "", `["dead","orders",100]`},
		{"GET", "/v1/queues/orders/dead?max=1000", "", `["dead","orders",1000]`},
		{"GET", "/v1/queues/orders/dead/17", "", `["dead letter","orders",17]`},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[17,18]}`, `["retry","orders",{"seqs":[17,18]},null]`},
		{"POST", "/v1/queues/orders/dead/retry", ` {"all":true} `, `["retry","orders",{"all":true},null]`},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":2}`, `["retry","orders",{"all":true},2]`},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":"high"}`, `["retry","orders",{"all":true},0]`},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":null,"max":5,"from":9}`, `["retry","orders",{"all":true,"max":5,"from":9},null]`},
		{"POST", "/v1/queues/orders/dead/purge", "", `["purge","orders"]`},
	} {
		r.reads = nil
		a := r.call(c.method, c.path, c.body)
		if a.StatusCode != 200 || !json.Valid([]byte(a.body)) || !slices.Equal(r.reads, []string{c.want}) {
			t.Errorf("%s %s %s: %d %s; asked %v, want %s", c.method, c.path, c.body, a.StatusCode, a.body, r.reads, c.want)
		}
	}
}

func TestBadDeadLetterCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Face = Admin })
	for _, c := range []struct {
		method, path, body string
		status             int
		code               api.Code
		hint               string
	}{
		{"GET", "/v1/queues/nope/dead", "", 404, api.CodeUnknownQueue, ""},
		{"GET", "/v1/queues/orders/dead?max=1001", "", 400, api.CodeBadRequest, "1 to 1000"},
		{"GET", "/v1/queues/orders/dead?all=1", "", 400, api.CodeBadRequest, "max"},
		{"GET", "/v1/queues/orders/dead/x", "", 400, api.CodeBadRequest, "the list shows"},
		{"GET", "/v1/queues/orders/dead/-1", "", 400, api.CodeBadRequest, ""},
		{"GET", "/v1/queues/orders/dead/18", "", 404, api.CodeNotFound, ""},
		{"GET", "/v1/queues/nope/dead/17", "", 404, api.CodeUnknownQueue, ""},
		{"POST", "/v1/queues/nope/dead/retry", `{"all":true}`, 404, api.CodeUnknownQueue, ""},
		{"POST", "/v1/queues/orders/dead/retry", "", 400, api.CodeBadRequest, `{"all":true}`},
		{"POST", "/v1/queues/orders/dead/retry", "{}", 400, api.CodeBadRequest, "say which"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[]}`, 400, api.CodeBadRequest, "say which"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[1],"all":true}`, 400, api.CodeBadRequest, "say which"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[1],"max":1}`, 400, api.CodeBadRequest, "remove"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":["x"]}`, 400, api.CodeBadRequest, "seqs"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seq":[1]}`, 400, api.CodeBadRequest, "seqs"},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true} {}`, 400, api.CodeBadRequest, "follows"},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":3}`, 400, api.CodePriority, ""},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":"urgent"}`, 400, api.CodeBadRequest, "high"},
		{"POST", "/v1/queues/orders/dead/retry", `{"all":true,"priority":[1]}`, 400, api.CodeBadRequest, "number or a string"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[` + strings.Repeat("1,", 1000) + `1]}`, 400, api.CodeBadRequest, "at most 1000"},
		{"POST", "/v1/queues/orders/dead/retry", `{"seqs":[` + strings.Repeat(" ", maxRetryBody) + `1]}`, 400, api.CodeBadRequest, "larger"},
		{"POST", "/v1/queues/nope/dead/purge", "", 404, api.CodeUnknownQueue, ""},
		{"POST", "/v1/queues/orders/dead/purge?x=1", "", 400, api.CodeBadRequest, ""},
		{"DELETE", "/v1/queues/orders/dead/17", "", 405, api.CodeMethodNotAllowed, "use GET"},
	} {
		a := r.call(c.method, c.path, c.body)
		wantError(t, a, c.status, c.code)
		var body api.ErrorBody
		if json.Unmarshal([]byte(a.body), &body) != nil || !strings.Contains(body.Error.Message, c.hint) {
			t.Errorf("%s %s %.60s: %s does not say %q", c.method, c.path, c.body, a.body, c.hint)
		}
	}
	app := newRig(t)
	wantError(t, app.call("GET", "/v1/queues/orders/dead", ""), 404, api.CodeNotFound)
}

// When nothing was put back, and all for one reason, that is the answer; otherwise each is told for itself.
func TestWhatARetryAnswers(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Face = Admin })
	full := &api.Error{Code: api.CodeQueueFull, Reason: "max_messages", Message: "the queue is full"}
	gone := &api.Error{Code: api.CodeNotFound, Message: "there is no such dead letter"}
	for name, c := range map[string]struct {
		done   api.DeadRetried
		status int
	}{
		"all for one reason":  {api.DeadRetried{Failed: []api.DeadFailed{{Seq: 1, Error: full}, {Seq: 2, Error: full}}}, 429},
		"for several reasons": {api.DeadRetried{Failed: []api.DeadFailed{{Seq: 1, Error: full}, {Seq: 2, Error: gone}}}, 200},
		"some":                {api.DeadRetried{Retried: 1, Failed: []api.DeadFailed{{Seq: 1, Error: full}}}, 200},
		"a page of one tenant": {api.DeadRetried{Next: 9, Failed: []api.DeadFailed{{
			Seq: 1, Error: &api.Error{Code: api.CodeQueueFull, Reason: "max_messages_per_key", Message: "the tenant's part is full"},
		}}}, 200},
		"one that is gone": {api.DeadRetried{Failed: []api.DeadFailed{{Seq: 1, Error: gone}}}, 404},
	} {
		r.mu.Lock()
		r.retried = &c.done
		r.mu.Unlock()
		a := r.call("POST", "/v1/queues/orders/dead/retry", `{"seqs":[1,2]}`)
		var got api.DeadRetried
		if a.StatusCode != c.status || json.Unmarshal([]byte(a.body), &got) != nil || len(got.Failed) != len(c.done.Failed) || got.Retried != c.done.Retried {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
		if c.status != 200 {
			wantError(t, a, c.status, c.done.Failed[0].Error.Code)
		}
	}
}
