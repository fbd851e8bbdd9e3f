package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// hostileKeys are keys that mean something to NATS, HTTP, files, terminals or people, and keys at the limit of length.
var hostileKeys = []string{
	"", ".", "..", "a.b", "*", ">", "a.>", "_", "=5F", "=", "%2e", " ", "\t", "a\r\nNats-Msg-Id: 1", "\x00", "$JS.API",
	"_INBOX", "_INBOX.>", "/", "a/b", "é", "e\u0301", "\u202egnp.exe", "a\u200bb", "🚚", "p0", "fl.q.jobs.p0.x",
	strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("k", 300), strings.Repeat("k", 5000),
	strings.Repeat(".", 42), strings.Repeat(".", 43), "\xff\xfe", "a\xc3",
}

// encodedLength is the length of a key in a subject: three bytes for each that is not a letter, digit, - or _.
func encodedLength(key string) int {
	if key == "_" {
		return 3
	}
	n := 0
	for _, b := range []byte(key) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '_':
			n++
		default:
			n += 3
		}
	}
	return n
}

func usable(key string) bool {
	return strings.ToValidUTF8(key, "") == key && encodedLength(key) <= 128
}

func TestHostileKeysComeBackOrAreRefused(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: fairQueue})
	app := a.app("main")
	for i, key := range hostileKeys {
		payload := fmt.Sprintf("message %d", i)
		injected(t, "hostile key", fmt.Sprintf("%.40q", key))
		_, refused := a.tryPublish("jobs", payload, api.HeaderKey, url.PathEscape(key))
		if !usable(key) {
			if refused == nil || refused.Code != api.CodeInvalidKey {
				t.Errorf("key %.40q: %v, want %s", key, refused, api.CodeInvalidKey)
			}
		} else if refused != nil {
			t.Errorf("key %.40q was refused: %v", key, refused)
		} else if got := app.take(1, 1)[0]; got.Key != key || string(got.Payload()) != payload {
			t.Errorf("key %.40q came back as %.40q with %q", key, got.Key, got.Payload())
		}
		// Nobody else is disturbed.
		a.publish("jobs", "after "+payload, api.HeaderKey, "acme")
		if got := app.take(1, 1)[0]; got.Key != "acme" {
			t.Fatalf("after key %.40q: a message of %q", key, got.Key)
		}
	}
	app.empty()
}

func TestHostileKeysInABatch(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	app := a.app("main")
	var body strings.Builder
	want := map[string]bool{}
	for _, key := range hostileKeys {
		if !strings.HasPrefix(key, "\xff") && !strings.HasSuffix(key, "\xc3") { // JSON cannot say these
			line, err := json.Marshal(note{Data: "x", Key: key})
			if err != nil {
				t.Fatal(err)
			}
			body.Write(append(line, '\n'))
			want[key] = usable(key)
		}
	}
	i, stored := 0, 0
	results := a.batchText("jobs", []byte(body.String()))
	for _, key := range hostileKeys {
		if _, asked := want[key]; !asked {
			continue
		}
		switch r := results[i]; {
		case want[key] && r.Error != nil:
			t.Errorf("key %.40q was refused: %v", key, r.Error)
		case want[key]:
			stored++
		case r.Error == nil || r.Error.Code != api.CodeInvalidKey:
			t.Errorf("key %.40q: %v, want %s", key, r.Error, api.CodeInvalidKey)
		}
		i++
	}
	for _, d := range app.take(stored, 8) {
		if !want[d.Key] {
			t.Errorf("key %.40q came back, and was not sent", d.Key)
		}
		delete(want, d.Key)
	}
	for key, usable := range want {
		if usable {
			t.Errorf("key %.40q did not come back", key)
		}
	}
}

// However a key looks, it is one token of the subject.
func TestHostileKeysAreOneTokenOfTheSubject(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: fairQueue})
	stored := 0
	for _, key := range hostileKeys {
		if usable(key) {
			a.publish("jobs", "x", api.HeaderKey, url.PathEscape(key), api.HeaderPriority, "0")
			stored++
		}
	}
	subjects := server.subjects("FL_Q_jobs")
	if len(subjects) != stored {
		t.Errorf("%d usable keys became %d subjects", stored, len(subjects))
	}
	for _, s := range subjects {
		if tokens := strings.Split(s, "."); len(tokens) != 5 || tokens[3] != "p0" || strings.ContainsAny(tokens[4], "*> \t\r\n\x00") {
			t.Errorf("subject %q", s)
		}
	}
}

func TestHostileWeightsAreRefused(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	for _, weight := range []string{"0", "-1", "NaN", "Inf", "-Inf", "1e-9", "1e9", "abc", "1000.1", "0.0001", "1,5", "0x10", "1 2"} {
		injected(t, "hostile weight", weight)
		if _, refused := a.tryPublish("jobs", "x", api.HeaderWeight, weight); refused == nil || refused.Code != api.CodeInvalidWeight {
			t.Errorf("weight %s: %v, want %s", weight, refused, api.CodeInvalidWeight)
		}
	}
	for _, weight := range []string{"1", "0.001", "1000", "2.5"} {
		a.publish("jobs", "x", api.HeaderWeight, weight)
	}
	for _, weight := range []string{`0`, `-1`, `1e9`, `"NaN"`, `"abc"`} {
		r := a.batchText("jobs", []byte(`{"data":"x","weight":`+weight+"}\n"))
		if len(r) != 1 || r[0].Error == nil || r[0].Error.Code != api.CodeInvalidWeight {
			t.Errorf("weight %s in a batch: %+v, want %s", weight, r, api.CodeInvalidWeight)
		}
	}
	equal(t, "stored", len(a.app("main").take(4, 4)), 4)
	a.app("main").empty()
}

func TestHostileHeadersAndPriorities(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	for _, c := range []struct {
		header, value string
		want          api.Code
	}{
		{api.HeaderPriority, "3", api.CodePriority},
		{api.HeaderPriority, "-1", api.CodePriority},
		{api.HeaderPriority, "99999999999999999999", api.CodePriority},
		{api.HeaderPriority, "urgent", api.CodeBadRequest},
		{api.HeaderPrefix + "Nats-Msg-Id", "1", api.CodeInvalidHeader},
		{api.HeaderPrefix + "Nats-Rollup", "all", api.CodeInvalidHeader},
		{api.HeaderPrefix + "Fairlead-Weight", "1000", api.CodeInvalidHeader},
		{api.HeaderPrefix + "X", "a\xffb", api.CodeInvalidHeader},
		{api.HeaderPrefix + "Long", strings.Repeat("x", 20_000), api.CodeInvalidHeader},
		{api.HeaderDelay, "soon", ""},
	} {
		_, refused := a.tryPublish("jobs", "x", c.header, c.value)
		if refused == nil || c.want != "" && refused.Code != c.want {
			t.Errorf("%s: %.20q: %v, want %s", c.header, c.value, refused, c.want)
		}
	}
	if _, refused := a.tryPublish("nope", "x"); refused == nil || refused.Code != api.CodeUnknownQueue {
		t.Errorf("unknown queue: %v", refused)
	}
	a.app("main").empty()
}

// What is not HTTP, or not all of it, costs its own connection and no other.
func TestMalformedRequestsDisturbNobody(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for _, c := range []string{
		"", "\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", string(noise),
		"POST /v1/queues/jobs/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
		"POST /v1/queues/jobs/messages HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/queues/jobs/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nx",
		"POST /v1/queues/jobs/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST /v1/capsules/main/pull?max=many HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"POST /v1/settle HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n[[[[[[[[[",
		"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
	} {
		conn, err := net.Dial("unix", a.socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		injected(t, "malformed request", fmt.Sprintf("%.40q", c))
		_, _ = io.WriteString(conn, c)
		_ = conn.(*net.UnixConn).CloseWrite()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			if answer.StatusCode < 400 {
				t.Errorf("%.60q was answered with %s", c, answer.Status)
			}
			_ = answer.Body.Close()
		}
		_ = conn.Close()
		a.publish("jobs", "fine")
	}
	a.app("main").take(12, 12)
	a.app("main").empty()
	if !a.running() || strings.Contains(a.errs.String(), "panic") {
		t.Error("the agent panicked")
	}
}

// Many connections that say nothing, or stop in the middle of a request, do not keep others out.
func TestAThousandSilentConnections(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	for i := range 1000 {
		conn, err := net.Dial("unix", a.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "POST /v1/queues/jobs/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"[:20+i%56])
		}
		injected(t, "silent connection", "")
	}
	a.publish("jobs", "fine")
	a.app("main").take(1, 1)
}
