package socket

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/fairshare"
)

func (f *fakeAgent) Pause(_ context.Context, queue string, key *string) (*api.Paused, error) {
	f.note("pause", queue, key)
	return &api.Paused{Queue: queue, Key: key, Paused: true, Said: api.Said{Agent: "a1"}}, f.controlErr
}

func (f *fakeAgent) Resume(_ context.Context, queue string, key *string) (*api.Paused, error) {
	f.note("resume", queue, key)
	return &api.Paused{Queue: queue, Key: key}, f.controlErr
}

func (f *fakeAgent) Weight(queue, key string) (*api.KeyWeight, error) {
	f.note("weight", queue, key)
	return &api.KeyWeight{Queue: queue, Key: key, Weight: 1, From: api.WeightMessages}, f.controlErr
}

func (f *fakeAgent) SetWeight(_ context.Context, queue, key string, w fairshare.Weight) (*api.KeyWeight, error) {
	f.note("set", queue, key, w)
	return &api.KeyWeight{Queue: queue, Key: key, Weight: 2.5, From: api.WeightOverride}, f.controlErr
}

func (f *fakeAgent) Purge(_ context.Context, queue string, key *string, most int, until uint64) (*api.Purged, error) {
	f.note("purge", queue, key, most, until)
	return &api.Purged{Queue: queue, Key: key, Removed: 3, Until: 17, More: true}, f.controlErr
}

func admin(t *testing.T, fair bool) *rig {
	t.Helper()
	r := newRig(t, func(o *Options) { o.Face = Admin })
	q := r.queues["orders"]
	q.FairShare.Enabled = fair
	r.queues["orders"] = q
	return r
}

func TestControls(t *testing.T) {
	r := admin(t, true)
	for _, c := range []struct{ method, path, body, asked, answer string }{
		{"POST", "/v1/queues/orders/pause", "", `["pause","orders",null]`, `{"queue":"orders","paused":true,"agent":"a1"}`},
		{"POST", "/v1/queues/orders/resume", "", `["resume","orders",null]`, `{"queue":"orders","paused":false}`},
		{"POST", "/v1/queues/orders/keys/a%2Fb/pause", "", `["pause","orders","a/b"]`, `{"queue":"orders","key":"a/b","paused":true,"agent":"a1"}`},
		{"POST", "/v1/queues/orders/keys//pause", "", `["pause","orders",""]`, `{"queue":"orders","key":"","paused":true,"agent":"a1"}`},
		{"POST", "/v1/queues/orders/keys/_/resume", "", `["resume","orders","_"]`, `{"queue":"orders","key":"_","paused":false}`},
		{"POST", "/v1/queues/orders/keys/keys/resume", "", `["resume","orders","keys"]`, `{"queue":"orders","key":"keys","paused":false}`},
		{"POST", "/v1/queues/orders/keys/%2A/resume", "", `["resume","orders","*"]`, `{"queue":"orders","key":"*","paused":false}`},
		{"GET", "/v1/queues/orders/keys/acme/weight", "", `["weight","orders","acme"]`, `{"queue":"orders","key":"acme","weight":1,"weight_from":"messages"}`},
		{"PUT", "/v1/queues/orders/keys/acme/weight", `{"weight":2.5}`, `["set","orders","acme",2500]`, `{"queue":"orders","key":"acme","weight":2.5,"weight_from":"override"}`},
		{"PUT", "/v1/queues/orders/keys//weight", ` {"weight": 0.001} `, `["set","orders","",1]`, `{"queue":"orders","key":"","weight":2.5,"weight_from":"override"}`},
		{"DELETE", "/v1/queues/orders/keys/acme/weight", "", `["set","orders","acme",0]`, `{"queue":"orders","key":"acme","weight":2.5,"weight_from":"override"}`},
		{"POST", "/v1/queues/orders/purge", "", `["purge","orders",null,0,0]`, `{"queue":"orders","removed":3,"until":17,"more":true}`},
		{"POST", "/v1/queues/orders/keys//purge?max=5&until=18446744073709551615", "", `["purge","orders","",5,18446744073709551615]`, `{"queue":"orders","key":"","removed":3,"until":17,"more":true}`},
	} {
		r.reads = nil
		a := r.call(c.method, c.path, c.body)
		if a.StatusCode != 200 || strings.TrimSpace(a.body) != c.answer {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, a.StatusCode, a.body, c.answer)
		}
		if !slices.Equal(r.reads, []string{c.asked}) {
			t.Errorf("%s %s asked %v, want %s", c.method, c.path, r.reads, c.asked)
		}
	}
}

// What is wrong is told, and nothing is set.
func TestControlsThatAreRefused(t *testing.T) {
	r := admin(t, true)
	long := strings.Repeat("a", 129)
	const weight = "/v1/queues/orders/keys/acme/weight"
	for _, c := range []struct {
		method, path, body string
		status             int
		code               api.Code
	}{
		{"POST", "/v1/queues/nope/pause", "", 404, api.CodeUnknownQueue},
		{"POST", "/v1/queues/nope/keys/a/resume", "", 404, api.CodeUnknownQueue},
		{"PUT", "/v1/queues/nope/keys/a/weight", `{"weight":1}`, 404, api.CodeUnknownQueue},
		{"POST", "/v1/queues/nope/purge", "", 404, api.CodeUnknownQueue},
		{"POST", "/v1/queues/orders/keys/" + long + "/pause", "", 400, api.CodeInvalidKey},
		{"POST", "/v1/queues/orders/keys/%FF/pause", "", 400, api.CodeInvalidKey},
		{"DELETE", "/v1/queues/orders/keys/" + long + "/weight", "", 400, api.CodeInvalidKey},
		{"POST", "/v1/queues/orders/keys/" + long + "/purge", "", 400, api.CodeInvalidKey},
		{"POST", "/v1/queues/orders/pause?for=1h", "", 400, api.CodeBadRequest},
		{"POST", "/v1/queues/orders/pause", "", 200, ""},
		{"POST", "/v1/queues/orders/purge?max=0", "", 400, api.CodeBadRequest},
		{"POST", "/v1/queues/orders/purge?until=x", "", 400, api.CodeBadRequest},
		{"POST", "/v1/queues/orders/purge?until=0", "", 400, api.CodeBadRequest},
		{"PUT", weight, ``, 400, api.CodeBadRequest},
		{"PUT", weight, `3`, 400, api.CodeBadRequest},
		{"PUT", weight, `{}`, 400, api.CodeBadRequest},
		{"PUT", weight, `{"weight":null}`, 400, api.CodeBadRequest},
		{"PUT", weight, `{"weight":"3"}{}`, 400, api.CodeBadRequest},
		{"PUT", weight, `{"weight":3,"until":1}`, 400, api.CodeBadRequest},
		{"PUT", weight, `{"weight":3} x`, 400, api.CodeBadRequest},
		{"PUT", weight, strings.Repeat(" ", 5000) + `{"weight":3}`, 400, api.CodeBadRequest},
		{"PUT", weight, `{"weight":0}`, 400, api.CodeInvalidWeight},
		{"PUT", weight, `{"weight":-1}`, 400, api.CodeInvalidWeight},
		{"PUT", weight, `{"weight":1000.001}`, 400, api.CodeInvalidWeight},
		{"PUT", weight, `{"weight":0.0001}`, 400, api.CodeInvalidWeight},
		{"PUT", weight, `{"weight":1e2}`, 400, api.CodeInvalidWeight},
		{"PUT", weight + "?x=1", `{"weight":1}`, 400, api.CodeBadRequest},
	} {
		r.reads = nil
		a := r.call(c.method, c.path, c.body)
		if c.code == "" {
			continue
		}
		wantError(t, a, c.status, c.code)
		if len(r.reads) > 0 {
			t.Errorf("%s %s %s: %v was done", c.method, c.path, c.body, r.reads)
		}
	}
}

// Keys that lanes do not tell apart can be neither paused, weighed nor purged; taking back what is set can always be done.
func TestKeysWithoutFairShare(t *testing.T) {
	r := admin(t, false)
	for _, c := range [][3]string{
		{"POST", "/v1/queues/orders/keys/a/pause"}, {"PUT", "/v1/queues/orders/keys/a/weight", `{"weight":2}`}, {"POST", "/v1/queues/orders/keys/a/purge"},
	} {
		a := r.call(c[0], c[1], c[2])
		wantError(t, a, 409, api.CodeNeedsFairShare)
		if !strings.Contains(a.body, "fair_share: true") {
			t.Errorf("%s does not say what to do", a.body)
		}
	}
	if len(r.reads) > 0 {
		t.Errorf("%v was done", r.reads)
	}
	for _, c := range [][2]string{
		{"POST", "/v1/queues/orders/keys/a/resume"}, {"DELETE", "/v1/queues/orders/keys/a/weight"}, {"GET", "/v1/queues/orders/keys/a/weight"},
		{"POST", "/v1/queues/orders/pause"}, {"POST", "/v1/queues/orders/purge"},
	} {
		if a := r.call(c[0], c[1], ""); a.StatusCode != 200 {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.StatusCode, a.body)
		}
	}
	capped := r.queues["orders"]
	capped.ConcurrencyPerKey = 2 // each key waits by itself, and has no weight
	r.queues["orders"] = capped
	for _, path := range []string{"/v1/queues/orders/keys/a/pause", "/v1/queues/orders/keys/a/purge"} {
		if a := r.call("POST", path, ""); a.StatusCode != 200 {
			t.Errorf("%s with a cap per key: %d %s", path, a.StatusCode, a.body)
		}
	}
	wantError(t, r.call("PUT", "/v1/queues/orders/keys/a/weight", `{"weight":2}`), 409, api.CodeNeedsFairShare)
	r.controlErr = &api.Error{Code: api.CodeBroker, Message: "NATS is away: try again in a moment"}
	for _, path := range []string{"/v1/queues/orders/pause", "/v1/queues/orders/resume", "/v1/queues/orders/purge"} {
		wantError(t, r.call("POST", path, ""), 503, api.CodeBroker)
	}
}
