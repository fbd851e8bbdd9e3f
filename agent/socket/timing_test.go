package socket

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

func TestTiming(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 500, time.UTC)
	for _, c := range []struct {
		timing
		queue time.Duration // its TTL
		at    time.Duration // from now
		ttl   time.Duration
		bad   string // what the error says
	}{
		{timing{}, 0, 0, 0, ""},
		{timing{delay: "3s"}, 0, 3 * time.Second, 0, ""},
		{timing{delay: "0s"}, 0, 0, 0, ""},
		{timing{delay: "8760h"}, 0, 8760 * time.Hour, 0, ""},
		{timing{at: "2026-11-29T12:00:01.25+01:00"}, 0, -time.Hour + 1250*time.Millisecond - 500, 0, ""}, // has passed
		{timing{at: "2026-11-29T12:00:01.25Z"}, 0, 1250*time.Millisecond - 500, 0, ""},
		{timing{at: "1970-01-01T00:00:00Z"}, time.Hour, now.Sub(time.Unix(0, 0)) * -1, 0, ""},
		{timing{ttl: "1500ms"}, 0, 0, 1500 * time.Millisecond, ""},
		{timing{delay: "1h", ttl: "1h1ms"}, time.Minute, time.Hour, time.Hour + time.Millisecond, ""},
		{timing{delay: "59m"}, time.Hour, 59 * time.Minute, 0, ""},

		{timing{delay: "3"}, 0, 0, 0, "unit"},
		{timing{delay: "-1ns"}, 0, 0, 0, "from 0s"},
		{timing{delay: "8760h0m1s"}, 0, 0, 0, "a year"},
		{timing{at: "noon"}, 0, 0, 0, "RFC 3339"},
		{timing{at: "2027-11-29T12:00:01Z"}, 0, 0, 0, "within a year"},
		{timing{at: "2026-11-29T12:00:01Z", delay: "1s"}, 0, 0, 0, "one of them"},
		{timing{ttl: "0s"}, 0, 0, 0, "above 0s"},
		{timing{ttl: "1d"}, 0, 0, 0, "unit"},
		{timing{delay: "1h", ttl: "1h"}, 0, 0, 0, "expire before it is due"},
		{timing{delay: "1h"}, time.Hour, 0, 0, "expire before it is due"},
	} {
		var p broker.Publication
		err := c.read(&p, &config.Queue{Name: "q", TTL: c.queue}, now)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) || !strings.Contains(err.Error(), string(api.CodeBadRequest)) {
				t.Errorf("%+v: %v does not say %q", c.timing, err, c.bad)
			}
			continue
		}
		at := time.Time{}
		if c.delay != "" || c.timing.at != "" {
			at = now.Add(c.at)
		}
		if err != nil || !p.At.Equal(at) || p.TTL != c.ttl {
			t.Errorf("%+v: at %v, ttl %v, %v; want %v, %v", c.timing, p.At, p.TTL, err, at, c.ttl)
		}
	}
}

// A delayed message is answered with its handle, by itself and in a batch.
func TestDelayedIsAnsweredWithAHandle(t *testing.T) {
	r := newRig(t)
	var again bool
	r.store = func(p broker.Publication) (broker.Receipt, error) {
		if left := time.Until(p.At); left < 50*time.Second || left > time.Minute {
			return broker.Receipt{}, fmt.Errorf("due in %v", left)
		}
		if again {
			return broker.Receipt{Level: 1, Duplicate: true}, nil
		}
		return broker.Receipt{Delayed: "abc-1", Level: 1}, nil
	}
	for _, c := range []struct{ one, line string }{
		{`{"queue":"orders","priority":1,"key":"k","delayed":"abc-1","duplicate":false}`, `{"delayed":"abc-1","duplicate":false}`},
		{`{"queue":"orders","priority":1,"key":"k","duplicate":true}`, `{"duplicate":true}`},
	} {
		for _, header := range [][]string{{"Fairlead-Delay", "1m"}, {"Fairlead-At", time.Now().Add(time.Minute).Format(time.RFC3339Nano)}} {
			a := r.call("POST", ordersPath, "x", append(header, api.HeaderKey, "k")...)
			if a.StatusCode != 201 || strings.TrimSpace(a.body) != c.one {
				t.Errorf("%v: %d %s, want %s", header, a.StatusCode, a.body, c.one)
			}
		}
		a := r.call("POST", batchPath, `{"data":"x","delay":"1m"}`+"\n"+`{"data":"x","at":"`+time.Now().Add(time.Minute).Format(time.RFC3339Nano)+"\"}\n")
		if a.body != c.line+"\n"+c.line+"\n" {
			t.Errorf("batch: %s, want %s", a.body, c.line)
		}
		again = true
	}
}

func TestDelayedCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Face = Admin })
	a := r.call("GET", "/v1/queues/orders/delayed?max=7", "")
	if a.StatusCode != 200 || !strings.Contains(a.body, `{"delayed":[{"handle":"h","at":"1970-01-01T00:00:00Z","priority":0,"key":"k","bytes":0,`) || !strings.Contains(a.body, `"total":3`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := r.call("DELETE", "/v1/queues/orders/delayed/a%2Fb", ""); a.StatusCode != 204 || a.body != "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	r.mu.Lock()
	r.cancel = func(string, string) error {
		return &api.Error{Code: api.CodeUnknownHandle, Message: "no delayed message has this handle"}
	}
	reads := append([]string(nil), r.reads...)
	r.mu.Unlock()
	wantError(t, r.call("DELETE", "/v1/queues/orders/delayed/h", ""), 404, api.CodeUnknownHandle)
	if want := []string{"delayed orders 7", "cancel orders a/b"}; !reflect.DeepEqual(reads, want) {
		t.Errorf("asked for %q, want %q", reads, want)
	}
	wantError(t, r.call("GET", "/v1/queues/orders/delayed?max=0", ""), 400, api.CodeBadRequest)
	wantError(t, r.call("GET", "/v1/queues/nope/delayed", ""), 404, api.CodeUnknownQueue)
	wantError(t, r.call("DELETE", "/v1/queues/nope/delayed/h", ""), 404, api.CodeUnknownQueue)
	wantError(t, r.call("DELETE", "/v1/queues/orders/delayed/h?x=1", ""), 400, api.CodeBadRequest)
}
