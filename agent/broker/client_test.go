package broker

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/credentials"
	"github.com/fairlead/fairlead/config"
)

// Two agents never write to one store; the next one may when the first has stopped.
func TestEmbeddedStoreIsLocked(t *testing.T) {
	cfg := config.NATS{Embedded: &config.Embedded{StoreDir: t.TempDir()}, Prefix: "fl"}
	first := connect(t, cfg)
	if s := first.Connection(); !s.Connected || !s.Embedded || s.URL != "" || !strings.HasPrefix(s.Server, "fairlead-embedded") {
		t.Errorf("%+v", s)
	}
	_, err := Connect(within(t), Options{NATS: cfg, Bucket: "fairlead", Logger: hclog.NewNullLogger()})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("the second agent: %v", err)
	}
	first.Close()
	first.Close()
	connect(t, cfg)
}

// A file with a secret that is not one is told before anybody is connected to.
func TestConnectWithoutItsSecret(t *testing.T) {
	cfg := config.NATS{URLs: []string{"nats://127.0.0.1:1"}, TokenFile: filepath.Join(t.TempDir(), "none")}
	c, err := Connect(within(t), Options{NATS: cfg, Logger: hclog.NewNullLogger()})
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, credentials.ErrSecret) || !strings.Contains(err.Error(), "nats.token_file") {
		t.Errorf("%v", err)
	}
}

// What is stored in the embedded server is there after a restart of the agent.
func TestEmbeddedRestart(t *testing.T) {
	cfg := config.NATS{Embedded: &config.Embedded{StoreDir: t.TempDir()}, Prefix: "fl"}
	r := (&rig{connect(t, cfg), t, definition(nil)}).setUp()
	first := r.publish(0, "a", "kept")
	a := r.asker()
	r.giveBack(a.take(a.at(0, "a"), 1)[0], Return{Counts: AnAttempt})
	r.Close()

	again := (&rig{connect(t, cfg), t, definition(nil)}).setUp()
	if again.Boot() == r.Boot() {
		t.Error("two runs share a boot id")
	}
	b := again.asker()
	if m := b.take(b.at(0, "a"), 1)[0]; m.Seq != first.Seq || m.Attempt != 2 || string(m.Data) != "kept" {
		t.Errorf("%+v", m)
	}
}

// Without a server Connect gives a client that goes on looking, and tells what is the matter.
func TestConnectLater(t *testing.T) {
	s := newOutside(t)
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	c, err := Connect(ctx, Options{NATS: config.NATS{URLs: []string{s.url()}, Prefix: "fl"}, Bucket: "fairlead", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if c.Connected() {
		t.Fatal("connected to nothing")
	}
	until(t, "the reason is known", func() bool { return c.Connection().LastError != "" })
	if problems := c.CheckAccess(within(t), nil); len(problems) != 1 || !strings.Contains(problems[0], "cannot be reached") || !strings.Contains(problems[0], "refused") {
		t.Errorf("problems are %q", problems)
	}
	up := make(chan bool, 10)
	c.Notify(func(is bool) { up <- is })
	s.start()
	if !wait(t, up, "word of the connection") || !c.Connected() {
		t.Error("not connected")
	}
	s.stop()
	if wait(t, up, "word of the loss") {
		t.Error("told of a connection")
	}
}

func TestCheckAccess(t *testing.T) {
	r := newRig(t, nil)
	fresh := definition(func(q *config.Queue) { q.Name = "fresh" })
	r.publish(0, "a", "x")
	before := r.stored()
	if problems := r.CheckAccess(within(t), []config.Queue{r.q, fresh}); problems != nil {
		t.Errorf("problems are %q", problems)
	}
	another, err := Connect(within(t), Options{NATS: config.NATS{URLs: []string{r.Connection().URL}, Prefix: "fl"}, Bucket: "another-bucket", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	if problems := another.CheckAccess(within(t), nil); problems != nil {
		t.Errorf("problems of a bucket that may be made: %q", problems)
	}
	names := 0
	for range r.wire.JS.StreamNames(within(t)).Name() {
		names++
	}
	page, err := r.wire.Consumers(within(t), "FL_Q_orders", 0)
	if names != 3 || r.stored() != before || err != nil || page.Total != 0 {
		t.Errorf("the check left %d streams, %d messages, %d consumers", names, r.stored(), page.Total)
	}
}

func TestCheckAccessFindsStreams(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil)
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "OTHER", Subjects: []string{"fl.q.taken.>"}}, {Name: "FL_Q_theirs", Subjects: []string{"theirs"}, Retention: jetstream.InterestPolicy},
	} {
		if _, err := r.wire.JS.CreateStream(within(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	problems := r.CheckAccess(within(t), []config.Queue{
		definition(func(q *config.Queue) { q.Name = "taken" }), definition(func(q *config.Queue) { q.Name = "theirs" }),
	})
	if len(problems) != 2 || !strings.Contains(problems[0], "OTHER already takes") || !strings.Contains(problems[1], "not made by Fairlead") {
		t.Errorf("problems are %q", problems)
	}
}

func TestCheckAccessWithoutJetStream(t *testing.T) {
	s := newOutside(t, func(o *server.Options) { o.JetStream = false })
	c := connect(t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	if problems := c.CheckAccess(within(t), []config.Queue{definition(nil)}); len(problems) != 1 || !strings.Contains(problems[0], "JetStream is not enabled") {
		t.Errorf("problems are %q", problems)
	}
	_, bucket := c.Bucket().Ensure(within(t), 1)
	for what, err := range map[string]error{"bucket": bucket, "stream": c.EnsureStream(within(t), definition(nil))} {
		if !errors.Is(err, ErrNoJetStream) || !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), ErrUnavailable.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Each right that is missing is named, with the subject.
func TestCheckAccessRights(t *testing.T) {
	s := newOutside(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "weak", Password: "weak", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{
					"fl.q.>", "$JS.API.STREAM.MSG.DELETE.>", "$JS.API.CONSUMER.CREATE.FL_Q_orders.>", "$JS.API.STREAM.CREATE.>", "$KV.>",
				}},
				Subscribe: &server.SubjectPermission{Deny: []string{"fl.wake.>"}},
			}},
		}
	})
	s.user = "admin:admin@"
	strong := s.rig(nil)
	fresh := definition(func(q *config.Queue) { q.Name = "fresh" })
	if problems := strong.CheckAccess(within(t), []config.Queue{strong.q, fresh}); problems != nil {
		t.Errorf("an identity that may everything has problems: %q", problems)
	}
	s.user = "weak:weak@"
	weak := connect(t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	problems := weak.CheckAccess(within(t), []config.Queue{strong.q, fresh})
	want := []string{
		`queue orders: may not publish: * "fl.q.orders.d._"`,
		`queue orders: may not make lane consumers: * "$JS.API.CONSUMER.CREATE.FL_Q_orders.`,
		`queue orders: may not finish messages: * "$JS.API.STREAM.MSG.DELETE.FL_Q_orders"`,
		`queue orders: may not listen for wake-ups: * "fl.wake.orders.*.*"`,
		`queue orders: may not move and cancel delayed messages: * "$JS.API.STREAM.MSG.DELETE.FL_DELAY_orders"`,
		`queue fresh: may not make stream FL_Q_fresh, which does not exist * "$JS.API.STREAM.CREATE.FL_Q_fresh"`,
		`queue fresh: may not make stream FL_DELAY_fresh, which does not exist * "$JS.API.STREAM.CREATE.FL_DELAY_fresh"`,
		`bucket fairlead: may not be written: * "$KV.fairlead.sync"`,
		`bucket fairlead: may not be cleaned up: * "$JS.API.STREAM.MSG.DELETE.KV_fairlead"`,
	}
	if len(problems) != len(want) {
		t.Fatalf("problems are\n%s", strings.Join(problems, "\n"))
	}
	for i, w := range want {
		begin, end, _ := strings.Cut(w, " * ")
		if !strings.HasPrefix(problems[i], begin) || !strings.Contains(problems[i], end) {
			t.Errorf("problem %d is %q, want %q", i, problems[i], w)
		}
	}
}

// The rights of permits are checked where a queue needs them, and the check takes none away.
func TestCheckAccessOfPermits(t *testing.T) {
	s := newOutside(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "weak", Password: "weak", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"fl.slot.>", "$JS.API.STREAM.PURGE.FL_SLOT_orders"}},
			}},
		}
	})
	s.user = "admin:admin@"
	strong := s.rig(func(q *config.Queue) { q.ConcurrencyPerKey = 2 })
	if _, err := strong.wire.JS.Publish(within(t), "fl.slot.orders.a.0.somebody", nil); err != nil {
		t.Fatal(err)
	}
	if problems := strong.CheckAccess(within(t), []config.Queue{strong.q}); problems != nil {
		t.Errorf("an identity that may everything has problems: %q", problems)
	}
	stream, err := strong.wire.JS.Stream(within(t), "FL_SLOT_orders")
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%d permits after the check: %v", stream.CachedInfo().State.Msgs, err)
	}
	s.user = "weak:weak@"
	weak := connect(t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	problems := weak.CheckAccess(within(t), []config.Queue{strong.q})
	if len(problems) != 2 || !strings.Contains(problems[0], "may not claim permits") || !strings.Contains(problems[1], "may not remove permits of agents that are gone") {
		t.Errorf("problems are\n%s", strings.Join(problems, "\n"))
	}
}
