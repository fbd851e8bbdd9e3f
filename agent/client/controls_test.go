package client_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestPauseAndResume(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	for _, key := range []string{"", "a/b", "_"} {
		a.Put(0, key, "m")
	}
	pull := func() int {
		t.Helper()
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Deliveries)
	}
	unkeyed, slash := "", "a/b"
	for _, key := range []*string{nil, &unkeyed, &slash} {
		if p, err := c.Pause(ctx, "default", key); err != nil || !p.Paused || p.Agent == "" || (p.Key == nil) != (key == nil) {
			t.Errorf("%+v %v", p, err)
		}
	}
	if n := pull(); n != 0 {
		t.Errorf("got %d of a paused queue", n)
	}
	if p, err := c.Resume(ctx, "default", nil); err != nil || p.Paused {
		t.Errorf("%+v %v", p, err)
	}
	if n := pull(); n != 1 {
		t.Errorf("got %d, want the one whose key is not paused", n)
	}
	if _, err := c.Resume(ctx, "default", &unkeyed); err != nil {
		t.Error(err)
	}
	if n := pull(); n != 1 {
		t.Errorf("got %d after one key was resumed", n)
	}
	var e *api.Error
	if _, err := c.Pause(ctx, "nope", nil); !errors.As(err, &e) || e.Code != api.CodeUnknownQueue {
		t.Error(err)
	}
}

func TestWeights(t *testing.T) {
	c, ctx := connect(t, clienttest.New(t))
	for _, key := range []string{"", "acme", "a.b/c%"} {
		if w, err := c.SetWeight(ctx, "default", key, 2.5); err != nil || w.Weight != 2.5 || w.From != api.WeightOverride || w.Key != key {
			t.Errorf("%+v %v", w, err)
		}
		if w, err := c.Weight(ctx, "default", key); err != nil || w.Weight != 2.5 {
			t.Errorf("%+v %v", w, err)
		}
		if w, err := c.UnsetWeight(ctx, "default", key); err != nil || w.Weight != 1 || w.From != api.WeightMessages {
			t.Errorf("%+v %v", w, err)
		}
	}
	var e *api.Error
	if _, err := c.SetWeight(ctx, "default", "a", 1001); !errors.As(err, &e) || e.Code != api.CodeInvalidWeight {
		t.Error(err)
	}
}

// A weight is written as people write it: the agent does not take exponents.
func TestSmallAndLargeWeights(t *testing.T) {
	var bodies []string
	c, ctx := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		_, _ = io.WriteString(w, "{}")
	})
	for _, weight := range []float64{0.001, 1000, 2.5} {
		if _, err := c.SetWeight(ctx, "q", "k", weight); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`{"weight":0.001}`, `{"weight":1000}`, `{"weight":2.5}`} {
		if bodies[i] != want {
			t.Errorf("sent %s, want %s", bodies[i], want)
		}
	}
}

func TestPurge(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	for i := range 10 {
		a.Put(i%3, "k", "m")
		a.Put(i%3, "", "m")
	}
	key := ""
	r := client.PurgeRequest{Queue: "default", Key: &key, Max: 4}
	removed := 0
	for calls := 1; ; calls++ {
		got, err := c.Purge(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		removed += got.Removed
		r.Until = got.Until
		a.Put(0, "", "new")
		if !got.More {
			if calls != 3 || removed != 10 {
				t.Errorf("removed %d in %d calls", removed, calls)
			}
			break
		}
	}
	if got, err := c.Purge(ctx, client.PurgeRequest{Queue: "default"}); err != nil || got.Removed != 13 || got.Key != nil {
		t.Errorf("%+v %v", got, err)
	}
}
