package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestPublishSendsEveryField(t *testing.T) {
	const key = "a b/ü+%\n\x00*>."
	var got http.Header
	var body string
	c, ctx := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		text, _ := io.ReadAll(r.Body)
		body = string(text)
		if r.URL.EscapedPath() != "/v1/queues/or%2Fders/messages" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		_, _ = w.Write([]byte(`{"queue":"orders","priority":1,"key":"acme","seq":17,"duplicate":true}`))
	})
	stored, err := c.Publish(ctx, "or/ders", client.Message{
		Data: []byte("hello\x00"), Priority: "high", Key: key, Weight: "2.5", ID: "i-1",
		Delay: 90 * time.Second, At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), TTL: time.Minute, Compress: "gzip",
		ContentType: "text/plain", Headers: map[string]string{"Trace": "x", "Empty": "", "traceparent": "00-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (api.Published{Queue: "orders", Priority: 1, Key: "acme", Seq: 17, Duplicate: true}); stored != want {
		t.Errorf("got %+v, want %+v", stored, want)
	}
	if body != "hello\x00" {
		t.Errorf("payload %q", body)
	}
	for name, want := range map[string]string{
		"Fairlead-Priority": "high", "Fairlead-Weight": "2.5", "Fairlead-Id": "i-1", "Fairlead-Delay": "1m30s",
		"Fairlead-At": "2026-01-02T03:04:05.000000006Z", "Fairlead-TTL": "1m0s", "Fairlead-Compress": "gzip",
		"Content-Type": "text/plain", "Fairlead-Header-Trace": "x", "Traceparent": "00-1",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	if _, ok := got["Fairlead-Header-Empty"]; !ok {
		t.Error("an application's empty header was left out")
	}
	if decoded, err := url.PathUnescape(got.Get("Fairlead-Key")); err != nil || decoded != key {
		t.Errorf("key %q decodes to %q, %v", got.Get("Fairlead-Key"), decoded, err)
	}
}

func TestPublishLeavesOutWhatIsNotGiven(t *testing.T) {
	c, ctx := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Fairlead-") || name == "Content-Type" {
				t.Errorf("header %s was sent", name)
			}
		}
		_, _ = w.Write([]byte(`{}`))
	})
	if _, err := c.Publish(ctx, "q", client.Message{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
}

func collect(into *[]string) func(client.BatchLine) error {
	return func(l client.BatchLine) error {
		text := fmt.Sprintf("%d:seq %d", l.Line, l.Result.Seq)
		if l.Result.Error != nil {
			text = fmt.Sprintf("%d:%s", l.Line, l.Result.Error.Code)
		}
		*into = append(*into, text)
		return nil
	}
}

func TestBatchNumbersLinesAsTheyAreInTheFile(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	var got []string
	lines := "\n{\"data\":\"a\"}\r\n   \n\nnonsense\n{\"data\":\"b\",\"priority\":\"none\"}\n{\"data\":\"c\"}"
	if err := c.PublishBatch(ctx, "default", strings.NewReader(lines), collect(&got)); err != nil {
		t.Fatal(err)
	}
	want := "2:seq 1 5:bad_request 6:priority_out_of_range 7:seq 2"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestBatchOfNothing(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	var got []string
	if err := c.PublishBatch(ctx, "default", strings.NewReader("\n \n"), collect(&got)); err != nil || got != nil {
		t.Fatalf("got %v, %v", got, err)
	}
}

// Results have to come while the sender still waits for more input.
func TestBatchIsAStream(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	in, out := io.Pipe()
	results := make(chan int)
	ended := make(chan error, 1)
	go func() {
		ended <- c.PublishBatch(ctx, "default", in, func(l client.BatchLine) error {
			results <- l.Line
			return nil
		})
	}()
	for line := 1; line <= 3; line++ {
		if _, err := fmt.Fprintf(out, "{\"data\":\"%d\"}\n", line); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-results:
			if got != line {
				t.Fatalf("line %d answered, want %d", got, line)
			}
		case <-ctx.Done():
			t.Fatalf("line %d was not answered while the batch was open", line)
		}
	}
	_ = out.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestBatchWithLongLines(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	long := strings.Repeat("x", 300_000)
	lines := strings.Repeat(`{"data":"`+long+`"}`+"\n", 20) + strings.Repeat("{\"data\":\"s\"}\n", 5000)
	var got []string
	if err := c.PublishBatch(ctx, "default", strings.NewReader(lines), collect(&got)); err != nil {
		t.Fatal(err)
	}
	if len(got) != 5020 || got[5019] != "5020:seq 5020" {
		t.Fatalf("%d results, the last %v", len(got), got[len(got)-1])
	}
	pulled, err := c.Pull(ctx, client.PullRequest{Capsule: "default"})
	if err != nil || string(pulled.Deliveries[0].Payload()) != long {
		t.Fatalf("the first line changed on its way: %v", err)
	}
}

// The agent answers while the client still writes, and then hangs up: the answer must not be lost to the error of writing on.
func TestBatchToAnUnknownQueueIsToldAlthoughTheInputNeverEnds(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	for range 20 {
		endless := readerFunc(func(p []byte) (int, error) { return copy(p, strings.Repeat("{\"data\":\"x\"}\n", 1000)), nil })
		err := c.PublishBatch(ctx, "none", endless, nil)
		var got *api.Error
		if !errors.As(err, &got) || got.Code != api.CodeUnknownQueue {
			t.Fatalf("got %v, want unknown_queue", err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBatchWhoseInputFails(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	broken := errors.New("disk on fire")
	in := io.MultiReader(strings.NewReader("{\"data\":\"a\"}\n{\"data\":"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	var got []string
	err := c.PublishBatch(ctx, "default", in, collect(&got))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 2") {
		t.Fatalf("got %v, want the error of the input at line 2", err)
	}
	if waiting, _ := a.Waiting(); waiting > 1 {
		t.Errorf("half a line was stored")
	}
}

func TestBatchSaysFromWhereOnItIsUnknown(t *testing.T) {
	c, ctx := serve(t, func(w http.ResponseWriter, r *http.Request) {
		// It reads three lines, answers one and dies.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte("{\"seq\":1}\n"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	var got []string
	err := c.PublishBatch(ctx, "default", strings.NewReader("{\"data\":1}\n\n{\"data\":2}\n{\"data\":3}\n"), collect(&got))
	if !errors.Is(err, client.ErrConnectionLost) || !strings.Contains(err.Error(), "from line 3 on") || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestWhatNoHeaderCanCarryIsRefusedBeforeItIsSent(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	for name, m := range map[string]client.Message{
		"id":           {ID: "a\nb"},
		"header value": {Headers: map[string]string{"a": "b\r\nc"}},
		"header name":  {Headers: map[string]string{"a b": "c"}},
		"no name":      {Headers: map[string]string{"": "c"}},
		"content type": {ContentType: "a\x7f"},
	} {
		_, err := c.Publish(ctx, "default", m)
		var got *api.Error
		if !errors.As(err, &got) || got.Code != api.CodeInvalidHeader {
			t.Errorf("%s: got %v, want invalid_header", name, err)
		}
	}
	if a.Requests() != 0 {
		t.Errorf("%d requests were sent", a.Requests())
	}
}

func TestBatchStopsWhenTheCallerSaysSo(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	enough := errors.New("enough")
	err := c.PublishBatch(ctx, "default", strings.NewReader(strings.Repeat("{\"data\":1}\n", 1000)),
		func(client.BatchLine) error { return enough })
	if !errors.Is(err, enough) {
		t.Fatalf("got %v", err)
	}
}
