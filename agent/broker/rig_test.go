package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; nothing in a passing test takes nearly as long.
const patience = 20 * time.Second

// rig is one agent's side of a queue on an embedded server.
type rig struct {
	*Client
	t testing.TB
	q config.Queue
}

// definition returns a queue of three levels, the middle one by default, that shares fairly.
func definition(change func(*config.Queue)) config.Queue {
	q := config.Queue{
		Name: "orders", Levels: 3, DefaultPriority: 1, FairShare: config.FairShare{Enabled: true},
		AckWait: 30 * time.Second, DedupWindow: 2 * time.Minute,
		Storage: config.Storage{Type: "file", Replicas: 1, Compression: "s2"},
	}
	if change != nil {
		change(&q)
	}
	return q
}

// arrivalOrder switches fair share off.
func arrivalOrder(q *config.Queue) { q.FairShare.Enabled = false }

// newRig starts a server that listens on a free port, an agent in it, the bucket and the queue's stream.
func newRig(t testing.TB, change func(*config.Queue)) *rig {
	t.Helper()
	c := connect(t, config.NATS{Embedded: &config.Embedded{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}, Prefix: "fl"})
	return (&rig{c, t, definition(change)}).setUp()
}

// another is a second agent on the same server.
func (r *rig) another() *rig {
	r.t.Helper()
	c := connect(r.t, config.NATS{URLs: []string{r.Connection().URL}, Prefix: "fl"})
	return (&rig{c, r.t, r.q}).setUp()
}

func connect(t testing.TB, cfg config.NATS) *Client {
	t.Helper()
	bucket := "fairlead"
	if cfg.Prefix != "fl" {
		bucket += "-" + cfg.Prefix
	}
	c, err := Connect(within(t), Options{NATS: cfg, Bucket: bucket, Agent: "test", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if !c.Connected() {
		t.Fatal("not connected")
	}
	return c
}

func (r *rig) setUp() *rig {
	r.t.Helper()
	if warning, err := r.Bucket().Ensure(within(r.t), 1); err != nil || warning != "" {
		r.t.Fatal(warning, err)
	}
	r.Bucket().Start()
	wait(r.t, r.Bucket().Loaded(), "the bucket's first snapshot")
	r.define(r.q)
	return r
}

// define puts a definition in force.
func (r *rig) define(q config.Queue) {
	r.t.Helper()
	r.q = q
	if err := r.EnsureStream(within(r.t), q); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) layout() Layout { return NewLayout(r.q) }

// within is a context that ends before the test's patience does.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wait returns what comes out of ch.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// until asks again and again, for what nobody announces.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// publish stores one message as the socket would.
func (r *rig) publish(level int, key, data string) Receipt {
	r.t.Helper()
	receipt, err := r.Publish(within(r.t), r.q, Publication{Level: level, Key: key, Data: []byte(data)})
	if err != nil {
		r.t.Fatal(err)
	}
	return receipt
}

// raw publishes as any NATS client can, past all of Fairlead's checks, and returns the sequence.
func (r *rig) raw(subject, data string, headers ...string) uint64 {
	r.t.Helper()
	m := &nats.Msg{Subject: r.names.SubjectPrefix(r.q.Name) + subject, Data: []byte(data), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	ack, err := r.wire.JS.PublishMsg(within(r.t), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return ack.Sequence
}

// backlog publishes n messages on a subject, numbered from 0, and returns when they are stored.
func (r *rig) backlog(n int, subject string) {
	r.t.Helper()
	before := r.stored()
	for i := range n {
		if err := r.wire.NC.Publish(r.names.SubjectPrefix(r.q.Name)+subject, fmt.Append(nil, i)); err != nil {
			r.t.Fatal(err)
		}
	}
	until(r.t, "the backlog is stored", func() bool { return r.stored() == before+uint64(n) })
}

// stored counts the messages in the queue's stream.
func (r *rig) stored() uint64 {
	r.t.Helper()
	info, err := r.subjects(within(r.t), r.q.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.State.Messages
}

// asker asks lanes and waits for the answers.
type asker struct {
	*Feed
	r       *rig
	answers chan Answer
	strays  chan *Message
}

func (r *rig) asker() *asker {
	r.t.Helper()
	a := &asker{r: r, answers: make(chan Answer, 1024), strays: make(chan *Message, 1024)}
	f, err := r.NewFeed(func(answer Answer) { a.answers <- answer }, func(m *Message) { a.strays <- m })
	if err != nil {
		r.t.Fatal(err)
	}
	a.Feed = f
	r.t.Cleanup(f.Close)
	return a
}

// at is the lane of a level and key.
func (a *asker) at(level int, key string) *Lane {
	if !a.r.q.FairShare.Enabled {
		key = ""
	}
	return a.Lane(a.r.layout(), Address{Class: names.Class(level), Level: min(level, a.r.q.Levels-1), Key: key})
}

// caughtUp waits until a lane that exists knows of n messages: right after a publish it may still say that it is empty.
func (r *rig) caughtUp(lane *Lane, n uint64) {
	r.t.Helper()
	until(r.t, "the lane knows of its messages", func() bool {
		consumer, err := r.wire.JS.Consumer(within(r.t), lane.stream, lane.name)
		return err == nil && consumer.CachedInfo().NumPending == n
	})
}

// unprioritised is the lane of messages of a key that were published without a priority.
func (a *asker) unprioritised(key string) *Lane {
	a.r.t.Helper()
	token, err := names.EncodeKey(key)
	if err != nil {
		a.r.t.Fatal(err)
	}
	address, ok := a.r.layout().Address(names.NoPriority, token)
	if !ok {
		a.r.t.Fatalf("%q has no lane", key)
	}
	return a.Lane(a.r.layout(), address)
}

func (a *asker) ask(lane *Lane, n int) Answer {
	a.r.t.Helper()
	a.Ask(lane, n, 0)
	return wait(a.r.t, a.answers, "an answer")
}

// take asks until it has n messages.
func (a *asker) take(lane *Lane, n int) []*Message {
	a.r.t.Helper()
	var got []*Message
	until(a.r.t, fmt.Sprintf("%d messages came from %s", n, lane.Name()), func() bool {
		answer := a.ask(lane, n-len(got))
		if answer.Err != nil {
			a.r.t.Fatal(answer.Err)
		}
		got = append(got, answer.Messages...)
		return len(got) == n
	})
	return got
}

func (r *rig) finished(m *Message) Finish {
	r.t.Helper()
	done := make(chan Finish, 1)
	r.Finish(m, func(f Finish) { done <- f })
	return wait(r.t, done, "the outcome of a finish")
}

func (r *rig) giveBack(m *Message, how Return) {
	r.t.Helper()
	done := make(chan error, 1)
	r.Return(m, how, func(err error) { done <- err })
	if err := wait(r.t, done, "a return"); err != nil {
		r.t.Fatal(err)
	}
}

// put writes a record into the bucket.
func (r *rig) put(key, value string) {
	r.t.Helper()
	written := make(chan error, 1)
	r.bucket.Put(key, []byte(value), func(_ uint64, err error) { written <- err })
	if err := wait(r.t, written, "a write"); err != nil {
		r.t.Fatal(err)
	}
}

func payloads(messages []*Message) string {
	s := ""
	for _, m := range messages {
		s += string(m.Data) + " "
	}
	return s
}
