package socket

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// acceptable fails when a publication that was accepted from a hostile publisher could do harm.
func acceptable(t *testing.T, q *config.Queue, p broker.Publication) {
	t.Helper()
	if _, err := names.EncodeKey(p.Key); err != nil {
		t.Errorf("key %q was accepted: %v", p.Key, err)
	}
	if p.Level >= q.Levels {
		t.Errorf("level %d of %d was accepted", p.Level, q.Levels)
	}
	if p.Weight < 0 || p.Weight > 1_000_000 {
		t.Errorf("weight %d was accepted", p.Weight)
	}
	if p.TTL < 0 {
		t.Errorf("a TTL of %v was accepted", p.TTL)
	}
	for name, value := range p.Headers {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "nats-") || strings.HasPrefix(lower, "fairlead-") || strings.ContainsAny(name+value, "\r\n\x00") || strings.ContainsAny(name, ": ") {
			t.Errorf("header %q: %q was accepted", name, value)
		}
	}
}

func fuzzedQueue() *config.Queue { return &config.Queue{Name: "jobs", Levels: 3, DefaultPriority: 1} }

// FuzzBatchLine reads a line of a batch. What is accepted does no harm, however the line looks.
func FuzzBatchLine(f *testing.F) {
	for _, s := range []string{
		`{"data":"text"}`, `{"data_base64":"AAE="}`, `{"data":{"a":[1]},"priority":2,"key":"k","weight":1.5,"id":"x","ttl":"5s"}`,
		`{"data":"x","priority":3}`, `{"data":"x","priority":-1}`, `{"data":"x","key":"\u0000*.>"}`, `{"data":"x","weight":"NaN"}`, `{"data":"x","weight":1e9}`,
		`{"data":"x","headers":{"Nats-Msg-Id":"1","a\r\nb":"c"}}`, `{"data":"x","delay":"-5s"}`, `{"data":"x","at":"2026-11-29T12:00:00Z"}`, `{}`, `[`, `null`, `{"data":"x"}{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		q := fuzzedQueue()
		p, err := parseLine(q, line, 1<<10)
		if err != nil {
			return
		}
		acceptable(t, q, p)
		if len(p.Data) > 1<<10 {
			t.Errorf("%d bytes were accepted, of 1024", len(p.Data))
		}
	})
}

// FuzzPublishHeaders reads the headers of a publish, one of which is the fuzzer's.
func FuzzPublishHeaders(f *testing.F) {
	for _, s := range [][2]string{
		{"Fairlead-Priority", "2"}, {"Fairlead-Priority", "99999999999999999999"}, {"Fairlead-Key", "%2E%00"}, {"Fairlead-Key", "%zz"}, {"Fairlead-Weight", "0x10"},
		{"Fairlead-Weight", "1000"}, {"Fairlead-Id", "\x00"}, {"Fairlead-Ttl", "-1s"}, {"Fairlead-Delay", "9999h"}, {"Fairlead-At", "yesterday"},
		{"Fairlead-Header-Nats-Rollup", "all"}, {"Fairlead-Header-X", "a\r\nb"}, {"Fairlead-Header-", "x"}, {"Content-Type", "\n"}, {"Fairlead-Unknown", "1"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		q := fuzzedQueue()
		p, err := readMetadata(q, http.Header{http.CanonicalHeaderKey(name): {value}})
		if err == nil {
			acceptable(t, q, p)
		}
	})
}

// FuzzPullQuery reads the parameters of a pull. What is accepted is inside its bounds.
func FuzzPullQuery(f *testing.F) {
	for _, s := range []string{"max=64&wait=30s&lease=60s", "max=-1", "max=1e9", "wait=5m1s", "wait=-1s", "lease=0s", "lease=9999h", "wait=1", "%zz", "max=1&max=2", "max=99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if n, err := integer(q, "max", 1, 1000, 1); err == nil && (n < 1 || n > 1000) {
			t.Errorf("max=%d was accepted", n)
		}
		if d, err := wait(q); err == nil && (d < 0 || d > 5*time.Minute) {
			t.Errorf("wait=%v was accepted", d)
		}
		if d, err := lease(q, time.Minute); err == nil && d <= 0 {
			t.Errorf("lease=%v was accepted", d)
		}
	})
}
