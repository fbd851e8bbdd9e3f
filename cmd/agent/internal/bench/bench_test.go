package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/client/clienttest"
	"github.com/fairlead/fairlead/config"
)

// small returns options for a run of a moment, on a real server and with agents in memory.
func small(t *testing.T) Options {
	t.Helper()
	url, stop, err := StartServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return Options{
		URL: url, Dir: "/tmp", Messages: 200, Pull: 16, Connections: []int{1, 3}, Rounds: 2, Singles: 5, Takes: 5, Waiting: []int{3, 40},
		Start: startChanged(nil),
	}
}

// startChanged starts an agent in memory and then changes it.
func startChanged(change func(a *clienttest.Agent)) func(context.Context, *config.Config) (func(), error) {
	return func(_ context.Context, cfg *config.Config) (func(), error) {
		a, err := clienttest.Start(cfg.Listen.Socket)
		if err != nil {
			return nil, err
		}
		if change != nil {
			change(a)
		}
		return a.Stop, nil
	}
}

func TestEveryFigureIsMeasured(t *testing.T) {
	o := small(t)
	var steps []int
	o.Progress = func(done, total int, what string) {
		if total != 2*2*4+1+2 || what == "" {
			t.Errorf("step %d of %d: %q", done, total, what)
		}
		steps = append(steps, done)
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		for i, cell := range row.Cells {
			if cell.Connections != o.Connections[i] || len(cell.All) != 2 || cell.PerSecond <= 0 {
				t.Errorf("%s: %+v", row.Name, cell)
			}
			if want := cell.PerSecond / r.Rows[0].Cells[i].PerSecond; math.Abs(cell.OfBare-want) > 1e-9 {
				t.Errorf("%s: %v of bare, want %v", row.Name, cell.OfBare, want)
			}
		}
	}
	want := []string{"bare JetStream loop", "1 level, no keys", "3 levels × 10 keys", "3 levels × 1000 keys"}
	if !slices.Equal(names, want) {
		t.Errorf("rows %q", names)
	}
	if r.Delivery.Count != 5 || r.Delivery.P50 <= 0 || r.Delivery.P99 < r.Delivery.P50 {
		t.Errorf("delivery %+v", r.Delivery)
	}
	if len(r.Takes) != 2 || r.Takes[0].Count != 3 || r.Takes[1].Waiting != 40 || r.Takes[1].Count != 5 {
		t.Errorf("takes %+v", r.Takes)
	}
	for i, done := range steps {
		if done != i {
			t.Fatalf("progress %v", steps)
		}
	}
}

func TestNothingStaysOnTheServer(t *testing.T) {
	o := small(t)
	failed := errors.New("and then it fails")
	o.Start = func(ctx context.Context, cfg *config.Config) (func(), error) {
		nc, js, err := (&bench{Options: o}).connect()
		if err != nil {
			return nil, err
		}
		defer nc.Close()
		for _, name := range []string{strings.ToUpper(cfg.NATS.Prefix) + "_Q_default", "KV_" + cfg.Coordination.Bucket} {
			if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
				return nil, err
			}
		}
		return nil, failed
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, failed) {
		t.Fatalf("got %v", err)
	}
	nc, err := nats.Connect(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s is still there", name)
	}
}

// An agent that loses a message, or has one too many, gets no figure.
func TestNoFigureForAWrongCount(t *testing.T) {
	for name, change := range map[string]func(a *clienttest.Agent){
		"one too many": func(a *clienttest.Agent) { a.Put(0, "", "x") },
		"none come":    func(a *clienttest.Agent) { a.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			o := small(t)
			o.Start = startChanged(change)
			if _, err := Run(t.Context(), o); !errors.Is(err, ErrCount) {
				t.Fatalf("got %v, want ErrCount", err)
			}
		})
	}
}

func TestPullsThatGetLessThanTheyAskedFor(t *testing.T) {
	o := small(t)
	o.Rounds, o.Waiting, o.Singles = 1, nil, 0
	o.Start = startChanged(func(a *clienttest.Agent) { a.PerPull = 5 })
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestAgentsAreToldTheirLayout(t *testing.T) {
	o := small(t)
	o.Rounds, o.Connections, o.Waiting, o.Singles = 1, []int{1}, nil, 0
	start := o.Start
	var got []string
	prefixes := map[string]bool{}
	o.Start = func(ctx context.Context, cfg *config.Config) (func(), error) {
		q := cfg.Queues[0]
		got = append(got, strings.Repeat("l", q.Levels)+map[bool]string{true: "f"}[q.FairShare.Enabled])
		prefixes[cfg.NATS.Prefix] = true
		if cfg.NATS.Embedded != nil || cfg.NATS.URLs[0] != o.URL {
			t.Errorf("nats %+v", cfg.NATS)
		}
		return start(ctx, cfg)
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if want := []string{"l", "lllf", "lllf"}; !slices.Equal(got, want) || len(prefixes) != 3 {
		t.Errorf("layouts %q, prefixes %v", got, prefixes)
	}
}

func TestValidateReportsAll(t *testing.T) {
	o := Options{Connections: []int{0}, Waiting: []int{0}}
	err := o.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Fatalf("got %v, want five errors", err)
	}
	if d := DefaultOptions(); d.Validate() != nil {
		t.Errorf("the defaults: %v", d.Validate())
	}
}

func TestMedianAndPercentiles(t *testing.T) {
	for _, row := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := median(row.in); got != row.want {
			t.Errorf("median(%v) = %v, want %v", row.in, got, row.want)
		}
	}
	var values []time.Duration
	for i := 200; i > 0; i-- {
		values = append(values, time.Duration(i)*time.Microsecond)
	}
	if got, want := percentiles(values), (Times{200, 100, 198, 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := percentiles(values[:1]), (Times{1, 200, 200, 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
