package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// A connection that net/http closes is waited for, by a goroutine of its own, for half a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// stage is a demo before a small audience.
func stage(t *testing.T, agent *clienttest.Agent) (*Stage, *bytes.Buffer, context.Context) {
	t.Helper()
	c := client.New(agent.Socket)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	out := &bytes.Buffer{}
	return &Stage{Client: c, Queue: "default", Capsule: "default", Out: out}, out, ctx
}

func TestTourShowsOrderAndShares(t *testing.T) {
	agent := clienttest.New(t)
	s, out, ctx := stage(t, agent)
	if err := Tour(ctx, s); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"0 inversions", "acme     ████████████████████████················  60.0 %", "globex   ████████································  20.0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escape sequences without a terminal")
	}
	if waiting, inFlight := agent.Waiting(); waiting+inFlight > 0 {
		t.Errorf("%d wait, %d in flight: the queue was empty before", waiting, inFlight)
	}
}

func TestTourInColour(t *testing.T) {
	s, out, ctx := stage(t, clienttest.New(t))
	s.Colour = true
	if err := Tour(ctx, s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[36mHa\x1b[0m") {
		t.Error("no colours")
	}
}

// An agent whose levels or shares are wrong has to be found out.
func TestTourFindsOut(t *testing.T) {
	t.Run("levels", func(t *testing.T) {
		agent := clienttest.New(t)
		agent.Order = func(a, b *clienttest.Message) bool { return a.Seq < b.Seq }
		s, out, ctx := stage(t, agent)
		if err := Tour(ctx, s); !errors.Is(err, ErrNotExact) {
			t.Fatalf("got %v for arrival order\n%s", err, out)
		}
	})
	t.Run("shares", func(t *testing.T) {
		agent := clienttest.New(t)
		agent.Order = func(a, b *clienttest.Message) bool {
			return a.Priority < b.Priority || a.Priority == b.Priority && a.Seq < b.Seq
		}
		s, out, ctx := stage(t, agent)
		if err := Tour(ctx, s); !errors.Is(err, ErrNotExact) {
			t.Fatalf("got %v without fair share\n%s", err, out)
		}
	})
}

func TestWeights(t *testing.T) {
	for _, size := range []int{1, 2, 8, 64} {
		s, out, ctx := stage(t, clienttest.New(t))
		if err := Weights(ctx, s, Ratio{3, 1}, size, 48); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := "a: acme, weight 3, 36 messages; b: globex, weight 1, 12 messages; pulls of "
		if !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "exact: every window of 4 has 3:1\n") {
			t.Errorf("got\n%s", out)
		}
		if !strings.Contains(out.String(), "\nabaa abaa abaa ") {
			t.Errorf("no order in\n%s", out)
		}
	}
}

func TestWeightsFindsOut(t *testing.T) {
	agent := clienttest.New(t)
	agent.Order = func(a, b *clienttest.Message) bool { return a.Seq < b.Seq }
	s, out, ctx := stage(t, agent)
	if err := Weights(ctx, s, Ratio{3, 1}, 8, 48); !errors.Is(err, ErrNotExact) {
		t.Fatalf("got %v for arrival order\n%s", err, out)
	}
	if !strings.Contains(out.String(), "not exact: 44 of 45 windows of 4 do not have 3:1, the first at 1\n") {
		t.Errorf("got\n%s", out)
	}
}

func TestDeviation(t *testing.T) {
	for _, row := range []struct {
		order      string
		bad, first int
	}{
		{"aaabaaabaaab", 0, 0},
		{"abaaabaa", 0, 0},
		{"aaabbaaa", 3, 1}, // aabb, abba and bbaa
		{"aaab" + "aaaa", 1, 4},
		{"bbbb", 1, 0},
	} {
		var order []message
		for _, c := range row.order {
			order = append(order, message{tenant: int(c - 'a')})
		}
		if bad, first := deviation(order, Ratio{3, 1}); bad != row.bad || first != row.first {
			t.Errorf("%s: %d bad windows, the first at %d; want %d at %d", row.order, bad, first, row.bad, row.first)
		}
	}
}

func TestParseRatio(t *testing.T) {
	for text, want := range map[string]Ratio{"3:1": {3, 1}, "6:2": {3, 1}, "1:1": {1, 1}, "1000:1000": {1, 1}, "7:5": {7, 5}} {
		if got, err := ParseRatio(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "3:", ":1", "0:1", "-1:1", "3:1:1", "1001:1", "1000:1", "a:b", "1.5:1"} {
		if got, err := ParseRatio(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestAMissingMessageIsToldInsteadOfWaitedFor(t *testing.T) {
	agent := clienttest.New(t)
	agent.Drain()
	s, _, ctx := stage(t, agent)
	if err := Weights(ctx, s, Ratio{3, 1}, 8, 48); !errors.Is(err, ErrMissing) {
		t.Fatalf("got %v", err)
	}
}

func TestSomebodyElsesMessageIsTold(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "stranger", "x")
	s, _, ctx := stage(t, agent)
	if err := Tour(ctx, s); err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Fatalf("got %v", err)
	}
}
