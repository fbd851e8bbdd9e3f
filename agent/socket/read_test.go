package socket

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

func TestReads(t *testing.T) {
	for _, face := range []Face{App, Admin} {
		r := newRig(t, func(o *Options) { o.Face = face })
		for path, want := range map[string]string{
			"/v1/status": `"agent":"a1"`, "/v1/queues": `"name":"orders"`, "/v1/queues/orders": `"name":"orders"`, "/v1/queues/orders/peek": `"queue":"orders"`,
		} {
			a := r.call("GET", path, "")
			if a.StatusCode != 200 || !strings.Contains(a.body, want) || a.Header.Get("Content-Type") != api.TypeJSON || !json.Valid([]byte(a.body)) {
				t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
			}
		}
		r.reads = nil
		for _, path := range []string{
			"/v1/queues/orders", "/v1/queues/orders?keys=5", "/v1/queues/orders/peek", "/v1/queues/orders/peek?max=3&priority=low&key=a%20b",
			"/v1/queues/orders/peek?priority=1&key=", "/v1/queues/orders/peek?max=&priority=",
		} {
			if a := r.call("GET", path, ""); a.StatusCode != 200 {
				t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
			}
		}
		want := []string{
			`["queue","orders",100]`, `["queue","orders",5]`, `["peek","orders",10,null,null]`, `["peek","orders",3,2,"a b"]`,
			`["peek","orders",10,1,""]`, `["peek","orders",10,null,null]`,
		}
		if !slices.Equal(r.reads, want) {
			t.Errorf("asked %v, want %v", r.reads, want)
		}
		wantError(t, r.call("GET", "/v1/queues/nope", ""), 404, api.CodeUnknownQueue)
		wantError(t, r.call("GET", "/v1/queues/nope/peek", ""), 404, api.CodeUnknownQueue)
		wantError(t, r.call("GET", "/v1/queues/orders?keys=x", ""), 400, api.CodeBadRequest)
		wantError(t, r.call("GET", "/v1/queues/orders/peek?max=1001", ""), 400, api.CodeBadRequest)
		wantError(t, r.call("GET", "/v1/queues/orders/peek?priority=9", ""), 400, api.CodePriority)
		wantError(t, r.call("GET", "/v1/queues/orders/peek?key="+strings.Repeat("a", 129), ""), 400, api.CodeInvalidKey)
		wantError(t, r.call("GET", "/v1/status?x=1", ""), 400, api.CodeBadRequest)
	}
}

func TestRoutes(t *testing.T) {
	app, admin := newRig(t), newRig(t, func(o *Options) { o.Face = Admin })
	for _, c := range []struct {
		r            *rig
		method, path string
		status       int
		code         api.Code
		hint         string
	}{
		{app, "GET", "/", 404, api.CodeNotFound, "/v1/"},
		{app, "GET", "/v2/status", 404, api.CodeNotFound, "/v2/status"},
		{app, "GET", "/v1/status/", 404, api.CodeNotFound, ""},
		{app, "POST", "/v1/queues//messages", 404, api.CodeNotFound, ""},
		{app, "GET", "/v1/queues/orders/messages", 405, api.CodeMethodNotAllowed, "use POST"},
		{app, "DELETE", "/v1/status", 405, api.CodeMethodNotAllowed, "use GET"},
		{app, "BREW", "/v1/settle", 405, api.CodeMethodNotAllowed, "use POST"},
		{app, "POST", "/v1/queues/a%2Fb/messages", 404, api.CodeUnknownQueue, "a/b"},
		{app, "POST", "/v1/drain", 404, api.CodeNotFound, "admin socket"},
		{app, "POST", "/v1/queues/orders/purge", 404, api.CodeNotFound, "admin socket"},
		{admin, "POST", ordersPath, 404, api.CodeNotFound, "app socket"},
		{admin, "POST", pullPath, 404, api.CodeNotFound, "app socket"},
		{app, "POST", "/v1/queues/orders/keys/acme/pause", 404, api.CodeNotFound, "admin socket"},
		{app, "PUT", "/v1/queues/orders/keys//weight", 404, api.CodeNotFound, "admin socket"},
		{admin, "POST", "/v1/queues//pause", 404, api.CodeNotFound, ""},
		{admin, "POST", "/v1/queues//keys/acme/pause", 404, api.CodeNotFound, ""},
		{admin, "POST", "/v1/queues/orders/keys/pause", 404, api.CodeNotFound, ""},
		{admin, "GET", "/v1/queues/orders/pause", 405, api.CodeMethodNotAllowed, "use POST"},
		{admin, "POST", "/v1/queues/orders/keys/acme/weight", 405, api.CodeMethodNotAllowed, "use GET or PUT or DELETE"},
		{app, "GET", "/v1/queues/orders/delayed", 404, api.CodeNotFound, "admin socket"},
		{app, "DELETE", "/v1/queues/orders/delayed/h", 404, api.CodeNotFound, "admin socket"},
		{admin, "GET", "/v1/drain", 405, api.CodeMethodNotAllowed, "use POST"},
	} {
		a := c.r.call(c.method, c.path, "")
		wantError(t, a, c.status, c.code)
		if !strings.Contains(a.body, c.hint) {
			t.Errorf("%s %s: %s does not say %q", c.method, c.path, a.body, c.hint)
		}
		allow, refused := strings.ReplaceAll(a.Header.Get("Allow"), ", ", " or "), c.code == api.CodeMethodNotAllowed
		if refused != (allow != "") || refused && c.hint != "use "+allow {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, a.Header.Get("Allow"))
		}
	}
}

func TestDrainCall(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Face = Admin })
	if a := r.call("POST", "/v1/drain", ""); a.StatusCode != 200 || a.body != "{\"state\":\"drained\"}\n" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	release := make(chan struct{})
	onDrain := func(drain func(context.Context) error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drain = drain
	}
	onDrain(func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for _, wait := range []string{"0s", "50ms"} {
		if a := r.call("POST", "/v1/drain?wait="+wait, ""); a.StatusCode != 202 || a.body != "{\"state\":\"draining\"}\n" {
			t.Errorf("wait %s: %d %s", wait, a.StatusCode, a.body)
		}
	}
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	if a := r.call("POST", "/v1/drain?wait=10s", ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	wantError(t, r.call("POST", "/v1/drain?wait=5", ""), 400, api.CodeBadRequest)
	onDrain(func(context.Context) error { return errors.New("broken") })
	wantError(t, r.call("POST", "/v1/drain", ""), 500, api.CodeInternal)
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(nil, Options{})
	for _, field := range []string{"Publisher", "Reader", "Capsules", "Book", "Lease"} {
		if err == nil || !strings.Contains(err.Error(), field+" is missing") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if _, err := New(nil, Options{Face: Admin}); err == nil || !strings.Contains(err.Error(), "Control") || !strings.Contains(err.Error(), "Delays") {
		t.Errorf("%v", err)
	}
	l := Limits{}.withDefaults()
	if l.Connections != 1024 || l.PingInterval != 15*time.Second || l.BodyTimeout != 30*time.Second {
		t.Errorf("defaults %+v", l)
	}
}
