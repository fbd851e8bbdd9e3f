package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

func level(n int) *int { return &n }

// from gives a queue sources.
func from(sources ...config.Source) func(*config.Queue) {
	return func(q *config.Queue) { q.Sources = sources }
}

// events makes a plain stream, as anybody's application would.
func (r *rig) events(name string, subjects ...string) {
	r.t.Helper()
	if _, err := r.wire.JS.CreateStream(within(r.t), jetstream.StreamConfig{Name: name, Subjects: subjects}); err != nil {
		r.t.Fatal(err)
	}
}

// emit publishes an event and returns its sequence.
func (r *rig) emit(subject, data string, headers ...string) uint64 {
	r.t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	ack, err := r.wire.JS.PublishMsg(within(r.t), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return ack.Sequence
}

// sourced waits until the queue holds n messages.
func (r *rig) sourced(n uint64) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("the queue holds %d messages", n), func() bool { return r.stored() == n })
}

// subjectCounts is what the queue's stream holds, as subject:count.
func (r *rig) subjectCounts() string {
	r.t.Helper()
	info, err := r.subjects(within(r.t), r.q.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	var s []string
	for subject, n := range info.State.Subjects {
		s = append(s, fmt.Sprintf("%s:%d", strings.TrimPrefix(subject, "fl.q.orders."), n))
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

func TestTransforms(t *testing.T) {
	n := names.New("fl", "fairlead")
	for _, tt := range []struct {
		source config.Source
		want   string // the first, and how many
	}{
		{config.Source{Subject: "events.acme"}, "events.acme -> fl.q.orders.d._ 1"},
		{config.Source{Subject: "events.*", Key: "{{wildcard(1)}}"}, "events.* -> fl.q.orders.d.{{wildcard(1)}} 1"},
		{config.Source{Subject: "*.x.*", Key: "{{ wildcard( 2 ) }}", Priority: level(0)}, "*.x.* -> fl.q.orders.p0.{{wildcard(2)}} 1"},
		{config.Source{Subject: "events.*.>", Key: "{{wildcard(1)}}", Priority: level(1)}, "events.*.* -> fl.q.orders.p1.{{wildcard(1)}} 9"},
		{config.Source{Subject: ">", Key: "a.b"}, "* -> fl.q.orders.d.a=2Eb 9"},
		{config.Source{Subject: "a", Key: "$1"}, "a -> fl.q.orders.d.=241 1"},
	} {
		list := sourcesOf(n, config.Queue{Name: "orders", Sources: []config.Source{tt.source}})[0].SubjectTransforms
		if got := fmt.Sprintf("%s -> %s %d", list[0].Source, list[0].Destination, len(list)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.source, got, tt.want)
		}
	}
	last := transforms("e.*.>", "to.{{wildcard(1)}}")[tailTokens]
	if last.Source != "e.*."+strings.Repeat("*.", tailTokens)+">" || last.Destination != "to.{{wildcard(1)}}.>" {
		t.Errorf("beyond that: %+v", last)
	}
}

// Events come into the lanes of their keys, old and new ones, with what they carry, and agents are woken by them.
func TestSources(t *testing.T) {
	r := newRig(t, nil)
	r.events("EVENTS", "events.>")
	r.events("PLAIN", "plain")
	r.emit("events.acme.created", "1", "X-A", "one", "Content-Type", "text/plain")
	r.emit("events.globex.a.b.c", "2")
	r.emit("events.short", "not matched by events.*.>")
	r.emit("plain", "3")
	r.publish(1, "x", "stored after the events, before the source")
	woken := make(chan Wake, 100)
	stop, err := r.Watch(r.layout(), func(w Wake) { woken <- w })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	q := r.q
	from(config.Source{Stream: "EVENTS", Subject: "events.*.>", Key: "{{wildcard(1)}}", Priority: level(0)}, config.Source{Stream: "PLAIN", Subject: "plain", Key: "k.1"})(&q)
	r.define(q)
	r.sourced(4)
	if got := r.subjectCounts(); got != "d.k=2E1:1 p0.acme:1 p0.globex:1 p1.x:1" {
		t.Fatalf("the queue holds %s", got)
	}
	for range 3 {
		if w := wait(t, woken, "a wake-up"); !w.Known || w.Seq == 0 {
			t.Errorf("woken by %+v", w)
		}
	}
	a := r.asker()
	m := a.take(a.at(0, "acme"), 1)[0]
	want := map[string]string{"x-a": "one", "fairlead-source-stream": "EVENTS", "fairlead-source-subject": "events.acme.created", "fairlead-source-seq": "1"}
	if string(m.Data) != "1" || m.ContentType != "text/plain" || fmt.Sprint(m.Headers) != fmt.Sprint(want) || m.Key != "acme" || m.Level != 0 {
		t.Errorf("%q at level %d of %s with %v, %s", m.Data, m.Level, m.Key, m.Headers, m.ContentType)
	}
	if m := a.take(a.unprioritised("k.1"), 1)[0]; m.Level != 1 || string(m.Data) != "3" {
		t.Errorf("without a priority: %q at level %d", m.Data, m.Level)
	}
	r.emit("events.acme.deleted", "4")
	if m := a.take(a.at(0, "acme"), 1)[0]; string(m.Data) != "4" {
		t.Errorf("%q", m.Data)
	}
	if problems, err := r.SourceProblems(within(t), r.q); err != nil || problems != nil {
		t.Errorf("problems: %q, %v", problems, err)
	}

	// Without its source nothing comes any more, what came stays.
	from(config.Source{Stream: "PLAIN", Subject: "plain", Key: "k.1"})(&q)
	r.define(q)
	before := r.stored()
	r.emit("events.acme.late", "5")
	r.emit("plain", "6")
	r.sourced(before + 1)
	if got := r.subjectCounts(); !strings.HasPrefix(got, "d.k=2E1:2 ") {
		t.Errorf("the queue holds %s", got)
	}
}

// Tokens that are no keys as they stand become keys, each message ends in its lane once, and subjects that are deeper than
// any event's are served too.
func TestSourcedMessagesOnOddSubjects(t *testing.T) {
	r := newRig(t, from(config.Source{Stream: "EVENTS", Subject: "events.*.>", Key: "{{wildcard(1)}}", Priority: level(0)}))
	another := r.another()
	r.events("EVENTS", "events.>")
	long := strings.Repeat("k", 200)
	for token, key := range map[string]string{
		"plain": "plain", "a=b": "a=b", "user@x": "user@x", "é": "é", "=ZZ": "=ZZ", "a=2Eb": "a.b", "_": "", "$1": "$1", long: "",
	} {
		r.emit("events."+token+".created", key)
		r.emit("events."+token+strings.Repeat(".x", tailTokens+3), key)
	}
	const n = 18
	r.sourced(n)
	for range 2 { // both agents, and again
		for _, agent := range []*rig{r, another} {
			s, err := agent.Sweep(within(t), agent.layout())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := agent.Repair(within(t), agent.q, s.Odd); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := r.stored(); got != n {
		t.Errorf("%d messages are stored, want %d", got, n)
	}
	s, err := r.Sweep(within(t), r.layout())
	if err != nil || len(s.Odd) > 0 {
		t.Fatal(s.Odd, err)
	}
	a := r.asker()
	seen := 0
	for _, found := range s.Lanes {
		for _, m := range a.take(a.Lane(r.layout(), found.Address), int(found.Messages)) {
			seen++
			if m.Key != string(m.Data) || m.Level != 0 {
				t.Errorf("%q is in the lane of %q, level %d", m.Data, m.Key, m.Level)
			}
			if m.Headers["fairlead-source-stream"] != "EVENTS" || !strings.HasPrefix(m.Headers["fairlead-source-subject"], "events.") || m.Headers["fairlead-source-seq"] == "" {
				t.Errorf("%q came from %v", m.Data, m.Headers)
			}
		}
	}
	if repaired, unknown := r.metrics.Repaired.Load()+another.metrics.Repaired.Load(), r.metrics.UnknownKeys.Load()+another.metrics.UnknownKeys.Load(); seen != n || repaired != 15 || unknown != 2 {
		t.Errorf("%d messages seen, %d repaired, %d without a usable key; want %d, 15 and 2", seen, repaired, unknown, n)
	}
}

// A full queue holds its sources up; nothing is lost, and nothing comes twice.
func TestSourcesWaitForRoom(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, func(q *config.Queue) {
		q.FairShare.Enabled = false
		q.Limits.MaxMessages = 10
		from(config.Source{Stream: "EVENTS", Subject: "events.*", Priority: level(0)})(q)
	})
	r.events("EVENTS", "events.*")
	const n = 25
	for i := range n {
		r.emit(fmt.Sprintf("events.%d", i), fmt.Sprint(i))
	}
	r.sourced(10)
	a := r.asker()
	var got []string
	for len(got) < n {
		m := a.take(a.at(0, ""), 1)[0]
		got = append(got, string(m.Data))
		r.finished(m)
	}
	for i, data := range got {
		if data != fmt.Sprint(i) {
			t.Fatalf("came as %v", got)
		}
	}
	if left := r.stored(); left != 0 {
		t.Errorf("%d are left", left)
	}
}

// Another level or key for the same events does not bring the old ones again, although they are finished and gone.
func TestASourceThatLeadsElsewhereGoesOn(t *testing.T) {
	source := config.Source{Stream: "EVENTS", Subject: "events.*.>", Priority: level(2)}
	r := newRig(t, from(source))
	r.events("EVENTS", "events.>")
	for i := range 20 {
		r.emit("events.a.x", fmt.Sprint(i))
	}
	r.sourced(20)
	a := r.asker()
	for _, m := range a.take(a.at(2, ""), 20) {
		r.finished(m)
	}
	for i, change := range []func(){func() { source.Priority = level(0) }, func() { source.Key = "{{wildcard(1)}}" }, func() { source.Priority = nil }} {
		change()
		q := r.q
		from(source)(&q)
		r.define(q)
		r.define(q) // a second agent says the same
		r.emit("events.a.x", fmt.Sprint("after change ", i))
		want := []string{"p0._:1", "p0.a:1", "d.a:1"}[i]
		until(t, "the new event is there", func() bool { return strings.Contains(r.subjectCounts(), want) })
		if got := r.stored(); got != uint64(i)+1 {
			t.Fatalf("after change %d: the queue holds %s", i, r.subjectCounts())
		}
	}
	// Where it goes on from is kept when something else of the stream changes.
	q := r.q
	q.Limits.MaxMessages = 1000
	r.define(q)
	info, err := r.inspect(within(t), r.names.Stream(q.Name))
	if err != nil || len(info.Config.Sources) != 1 || info.Config.Sources[0].OptStartSeq != 23 {
		t.Errorf("sources %+v, %v", info.Config.Sources[0], err)
	}
}

// A stream that does not exist is told, and so is one that has nothing that a source could take.
func TestAMissingSource(t *testing.T) {
	r := newRig(t, from(config.Source{Stream: "EVENTS", Subject: "events.>"}, config.Source{Stream: "EVENTS", Subject: "other.>"}))
	var problems []string
	until(t, "the problem is told", func() bool {
		var err error
		problems, err = r.SourceProblems(within(t), r.q)
		return err == nil && problems != nil
	})
	if len(problems) != 1 || problems[0] != "queue orders: source stream EVENTS does not exist; JetStream goes on trying" {
		t.Errorf("told %q", problems)
	}
	if found := r.CheckAccess(within(t), []config.Queue{r.q}); len(found) != 1 || !strings.Contains(found[0], "source stream EVENTS does not exist") {
		t.Errorf("found %q", found)
	}
	r.events("EVENTS", "events.>") // the server looks for it again after a while: see the integration tests
	if found := r.CheckAccess(within(t), []config.Queue{r.q}); len(found) != 1 || !strings.Contains(found[0], `no subject of stream EVENTS (events.>) matches "other.>"`) {
		t.Errorf("found %q", found)
	}
	q := r.q
	from(config.Source{Stream: "NEW", Subject: "new"})(&q)
	if problems, err := r.SourceProblems(within(t), q); err != nil || len(problems) != 1 || !strings.Contains(problems[0], "NEW is not set up") {
		t.Errorf("told %q, %v", problems, err)
	}
}

// What a server knows of its sources survives a clean restart, although all messages are finished and gone.
func TestSourcesGoOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	connect := func() *rig {
		c, err := Connect(within(t), Options{NATS: config.NATS{Embedded: &config.Embedded{StoreDir: dir}, Prefix: "fl"}, Bucket: "fairlead", Agent: "test", Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return (&rig{c, t, definition(from(config.Source{Stream: "EVENTS", Subject: "events.>", Priority: level(0)}))}).setUp()
	}
	r := connect()
	r.events("EVENTS", "events.>")
	for i := range 10 {
		r.emit("events.a", fmt.Sprint(i))
	}
	r.sourced(10)
	a := r.asker()
	for _, m := range a.take(a.at(0, ""), 10) {
		r.finished(m)
	}
	a.Feed.Close()
	r.Close()
	r = connect()
	r.emit("events.a", "after the restart")
	r.sourced(1)
	a = r.asker()
	if m := a.take(a.at(0, ""), 1)[0]; string(m.Data) != "after the restart" {
		t.Errorf("%q came again", m.Data)
	}
}

// Sourcing through the patterns of a > must keep up with a stream of many subjects.
func BenchmarkSources(b *testing.B) {
	for _, subject := range []string{"events.*.x", "events.*.>"} {
		b.Run(subject, func(b *testing.B) {
			c, err := Connect(b.Context(), Options{NATS: config.NATS{Embedded: &config.Embedded{StoreDir: b.TempDir()}, Prefix: "fl"}, Bucket: "fairlead", Agent: "test", Logger: hclog.NewNullLogger()})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			if _, err := c.wire.JS.CreateStream(b.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}}); err != nil {
				b.Fatal(err)
			}
			for i := range b.N {
				if _, err := c.wire.JS.PublishAsync(fmt.Sprintf("events.t%d.x", i%10_000), []byte("x"), jetstream.WithStallWait(time.Minute)); err != nil {
					b.Fatal(err)
				}
			}
			<-c.wire.JS.PublishAsyncComplete()
			q := definition(from(config.Source{Stream: "EVENTS", Subject: subject, Key: "{{wildcard(1)}}", Priority: level(0)}))
			b.ResetTimer()
			if err := c.EnsureStream(b.Context(), q); err != nil {
				b.Fatal(err)
			}
			for {
				info, err := c.streamInfo(b.Context(), q.Name, 0)
				if err != nil {
					b.Fatal(err)
				}
				if info.State.Messages >= uint64(b.N) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
