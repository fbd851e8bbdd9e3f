package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// mover moves due messages in the background, until the returned function is called or the test ends.
func (r *rig) mover() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.MoveDelayed(ctx, r.q.Name, func() (config.Queue, bool) { return r.q, true })
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(stop)
	return stop
}

// delayed publishes a message for later and returns its handle.
func (r *rig) delayed(after time.Duration, p Publication) string {
	r.t.Helper()
	now := time.Now() // one reading for both: however slow the machine is, the message is published before its time
	p.At = now.Add(after)
	stored := make(chan Receipt, 1)
	r.publishAt(now, r.q, p, func(receipt Receipt, err error) {
		if err != nil {
			r.t.Error(err)
		}
		stored <- receipt
	})
	receipt := wait(r.t, stored, "the receipt of a delayed message")
	if receipt.Delayed == "" || receipt.Seq != 0 || receipt.Duplicate {
		r.t.Fatalf("the receipt is %+v", receipt)
	}
	return receipt.Delayed
}

// due waits until n messages have become due, and nobody moved them.
func (r *rig) due(n int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d messages are due", n), func() bool {
		all, _, err := r.delayedUnder(within(r.t), r.q.Name, names.DueToken+".>")
		return err == nil && len(all) == n
	})
}

// leftDelayed counts the delayed messages, due ones included.
func (r *rig) leftDelayed() int {
	r.t.Helper()
	all, _, err := r.delayedUnder(within(r.t), r.q.Name, ">")
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

// A delayed message enters its queue as it was published, at its time, and not before.
func TestADelayedMessageComesAsItWasPublished(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	wakes := make(chan Wake, 10)
	stop, err := r.Watch(r.layout(), func(w Wake) { wakes <- w })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r.mover()
	begin := time.Now()
	const after = 1200 * time.Millisecond
	r.delayed(after, Publication{
		Level: 0, Key: "a.c", Weight: 2500, ID: "i1", ContentType: "text/plain", Headers: map[string]string{"traceparent": "00-1", "x": "y"},
		Data: []byte("hello"), TTL: time.Minute,
	})
	published := time.Now()
	if r.stored() != 0 {
		t.Error("it is in the queue at once")
	}
	w := wait(t, wakes, "a wake-up")
	if took := time.Since(begin); took < after || took > after+overdueAfter/2 { // JetStream has brought it, and no look for what is overdue
		t.Errorf("it came after %v", took)
	}
	if w.Address != (Address{"p0", 0, "a.c"}) || w.Weight != 2500 {
		t.Errorf("the wake-up is %+v", w)
	}
	m := a.take(a.at(0, "a.c"), 1)[0]
	if string(m.Data) != "hello" || m.ID != "i1" || m.Weight != 2500 || m.ContentType != "text/plain" || m.Attempt != 1 ||
		len(m.Headers) != 2 || m.Headers["traceparent"] != "00-1" || m.Headers["x"] != "y" {
		t.Errorf("the message is %+v", m)
	}
	// What it has to live counts from when it was published.
	if m.Expires.Before(begin.Add(time.Minute)) || m.Expires.After(published.Add(time.Minute)) {
		t.Errorf("it expires at %v, published between %v and %v", m.Expires, begin, published)
	}
	if f := r.finished(m); f != Finished {
		t.Errorf("finish: %v", f)
	}
	until(t, "nothing is left", func() bool { return r.leftDelayed() == 0 && r.stored() == 0 })
	until(t, "it is counted", func() bool { return r.metrics.DelayedMoved.Load() > 0 }) // when the mover hears that it is stored
	if n := r.metrics.DelayedMoved.Load(); n != 1 {
		t.Errorf("%d were moved", n)
	}
}

// A time that has passed is now.
func TestATimeThatHasPassedIsNow(t *testing.T) {
	r := newRig(t, nil)
	receipt, err := r.Publish(within(t), r.q, Publication{Level: -1, Data: []byte("x"), At: time.Now().Add(-time.Hour)})
	if err != nil || receipt.Seq == 0 || receipt.Delayed != "" {
		t.Fatalf("%+v, %v", receipt, err)
	}
}

// Messages without a priority follow the queue's default of the time when they come.
func TestADelayedMessageWithoutAPriorityFollowsTheDefault(t *testing.T) {
	r := newRig(t, arrivalOrder)
	r.delayed(1200*time.Millisecond, Publication{Level: -1, Data: []byte("x")}) // at its time it is there twice for a moment
	r.define(definition(func(q *config.Queue) { arrivalOrder(q); q.DefaultPriority = 2 }))
	counts, err := r.DelayedCounts(within(t), r.layout())
	if err != nil || fmt.Sprint(counts) != "[0 0 1]" {
		t.Errorf("counted %v, %v", counts, err)
	}
	r.mover()
	a := r.asker()
	if m := a.take(a.at(2, ""), 1)[0]; string(m.Data) != "x" || m.Level != 2 {
		t.Errorf("%+v", m)
	}
}

func TestADelayedIDIsStoredOncePerKey(t *testing.T) {
	r := newRig(t, nil)
	first := r.delayed(time.Hour, Publication{Level: -1, Key: "a", ID: "1"})
	again, err := r.Publish(within(t), r.q, Publication{Level: -1, Key: "a", ID: "1", At: time.Now().Add(time.Hour)})
	if err != nil || !again.Duplicate || again.Delayed != first {
		t.Errorf("the second is %+v, %v; the first %s", again, err, first)
	}
	if n := r.metrics.Duplicates.Load(); n != 1 {
		t.Errorf("%d were counted as duplicates, want 1", n)
	}
	if other := r.delayed(time.Hour, Publication{Level: -1, Key: "b", ID: "1"}); other == first {
		t.Error("another tenant's message was swallowed")
	}
	if n := r.leftDelayed(); n != 2 {
		t.Errorf("%d are delayed", n)
	}
	// The first is cancelled: its handle names nothing any more, and the id is still known.
	if err := r.CancelDelayed(within(t), r.q.Name, first); err != nil {
		t.Fatal(err)
	}
	again, err = r.Publish(within(t), r.q, Publication{Level: -1, Key: "a", ID: "1", At: time.Now().Add(time.Hour)})
	if err != nil || !again.Duplicate || again.Delayed != "" {
		t.Errorf("after the cancel: %+v, %v", again, err)
	}
}

func TestDelayedList(t *testing.T) {
	r := newRig(t, nil)
	for i, after := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
		r.delayed(after, Publication{Level: i, Key: fmt.Sprint("k", i), ID: fmt.Sprint("i", i), Data: []byte("four"), TTL: 24 * time.Hour})
	}
	list, err := r.Delayed(within(t), r.layout(), 2)
	if err != nil || list.Total != 3 || len(list.Messages) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []struct {
		level int
		after time.Duration
	}{{1, time.Hour}, {2, 2 * time.Hour}} {
		m := list.Messages[i]
		if left := time.Until(m.At); m.Level != want.level || m.Key != fmt.Sprint("k", want.level) || m.ID != fmt.Sprint("i", want.level) ||
			m.Due || m.Size != 4 || left > want.after || left < want.after-time.Minute || time.Until(m.Expires) < 23*time.Hour {
			t.Errorf("message %d is %+v", i, m)
		}
	}
	counts, err := r.DelayedCounts(within(t), r.layout())
	if err != nil || fmt.Sprint(counts) != "[1 1 1]" {
		t.Errorf("counted %v, %v", counts, err)
	}
}

// A message that a server whose clock is ahead calls due waits for its time by the agent's clock.
func TestADueMessageOfAServerThatIsAhead(t *testing.T) {
	r := newRig(t, nil)
	r.mover()
	at := time.Now().Add(400 * time.Millisecond)
	d := names.Delayed{Due: true, Class: "p0", Token: "a", Handle: names.NewHandle(at)}
	if _, err := r.wire.JS.PublishMsg(within(t), &nats.Msg{Subject: r.names.DelayPrefix(r.q.Name) + d.Subject(), Data: []byte("early")}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is in the queue", func() bool { return r.stored() == 1 })
	if early := time.Until(at); early > 0 {
		t.Errorf("it came %v early", early)
	}
}

// Two agents share what falls due; each message comes once.
func TestTwoMovers(t *testing.T) {
	r := newRig(t, arrivalOrder)
	other := r.another()
	r.mover()
	other.mover()
	const n = 400
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		r.PublishAsync(r.q, Publication{Level: 0, Data: fmt.Append(nil, i), At: time.Now().Add(time.Second)}, func(_ Receipt, err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	all.Wait()
	a := r.asker()
	came := map[string]int{}
	for _, m := range a.take(a.at(0, ""), n) {
		came[string(m.Data)]++
	}
	until(t, "nothing is left", func() bool { return r.leftDelayed() == 0 })
	if r.stored() != n || len(came) != n {
		t.Errorf("%d are stored, %d different ones came", r.stored(), len(came))
	}
	if moved := r.metrics.DelayedMoved.Load() + other.metrics.DelayedMoved.Load(); moved != n {
		t.Errorf("%d were moved", moved)
	}
}

// halfMove does the first half of a move, as a mover that dies before the second: the copy of the oldest due message is
// stored, and the original stays, not acknowledged.
func (r *rig) halfMove() {
	r.t.Helper()
	consumer, err := r.ensureMover(within(r.t), r.q.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	due, err := fetch(consumer.Fetch(1, jetstream.FetchMaxWait(patience)))
	if err != nil || len(due) != 1 {
		r.t.Fatal(due, err)
	}
	m := &mover{c: r.Client, queue: r.q.Name}
	d := m.read(r.q, due)[0]
	to := &nats.Msg{Subject: r.names.SubjectPrefix(r.q.Name) + d.Class + "." + d.Token, Header: d.header, Data: d.msg.Data()}
	if _, err := r.storeAndWait(within(r.t), to); err != nil {
		r.t.Fatal(err)
	}
	if err := d.msg.Nak(); err != nil { // as its acknowledgement wait would
		r.t.Fatal(err)
	}
}

// A mover that died between the two halves of a move leaves one copy: found by its id inside the dedup window, and by a look
// through the queue when that is over.
func TestAMoverDiesBetweenCopyAndDelete(t *testing.T) {
	for _, window := range []time.Duration{2 * time.Minute, 100 * time.Millisecond} {
		t.Run(window.String(), func(t *testing.T) {
			r := newRig(t, func(q *config.Queue) { arrivalOrder(q); q.DedupWindow = window })
			r.delayed(150*time.Millisecond, Publication{Level: 0, Data: []byte("once")})
			r.backlog(10, "p0.x")
			r.halfMove()
			time.Sleep(2 * min(window, 200*time.Millisecond)) // the short window is over
			r.mover()
			until(t, "the original is gone", func() bool { return r.leftDelayed() == 0 })
			if n := r.stored(); n != 11 {
				t.Errorf("%d are stored, want 11", n)
			}
		})
	}
}

// The same when the copy was handed out and finished before the next mover came: it is finished only after its original was
// deleted.
func TestACopyIsFinishedAfterItsOriginal(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { arrivalOrder(q); q.DedupWindow = 100 * time.Millisecond })
	r.delayed(150*time.Millisecond, Publication{Level: 0, Data: []byte("once")})
	r.halfMove()
	a := r.asker()
	if f := r.finished(a.take(a.at(0, ""), 1)[0]); f != Finished {
		t.Fatal(f)
	}
	if r.leftDelayed() != 0 {
		t.Error("the original is still there")
	}
	time.Sleep(200 * time.Millisecond) // the window is over
	r.mover()
	r.delayed(500*time.Millisecond, Publication{Level: 0, Data: []byte("behind")})
	if got := payloads(a.take(a.at(0, ""), 1)); got != "behind " || r.stored() != 1 {
		t.Errorf("got %s, %d are stored", got, r.stored())
	}
}

// A raw publisher that gives a handle of its own harms nobody.
func TestAForgedHandle(t *testing.T) {
	r := newRig(t, arrivalOrder)
	h := r.delayed(time.Hour, Publication{Level: 0})
	for _, forged := range []string{h, "*", ">", "x y", strings.Repeat("z", 300)} {
		r.raw("p0.x", "forged", headerDelayed, forged)
	}
	a := r.asker()
	for _, m := range a.take(a.at(0, ""), 5) {
		if f := r.finished(m); f != Finished {
			t.Errorf("%q: %v", m.delayed, f)
		}
	}
	if r.leftDelayed() != 1 {
		t.Error("a delayed message is gone")
	}
}

// In a full queue a due message waits, and comes when there is room; nothing else of the queue is changed by that.
func TestADueMessageWaitsForRoom(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { arrivalOrder(q); q.Limits.MaxMessages = 2 })
	r.publish(0, "", "a")
	r.publish(0, "", "b")
	r.mover()
	for i := range 3 {
		r.delayed(200*time.Millisecond, Publication{Level: 0, Data: fmt.Append(nil, "late", i)})
	}
	r.due(3)
	a := r.asker()
	got := map[string]int{}
	for range 5 {
		m := a.take(a.at(0, ""), 1)[0]
		got[string(m.Data)]++
		if n := r.stored(); n > 2 {
			t.Errorf("%d are stored", n)
		}
		if f := r.finished(m); f != Finished {
			t.Fatal(f)
		}
	}
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
	until(t, "all are counted", func() bool { return r.metrics.DelayedMoved.Load() >= 3 }) // when the mover hears that they are stored
	if n := r.metrics.DelayedMoved.Load(); n != 3 {
		t.Errorf("%d were moved", n)
	}
}

// A tenant whose own limit is reached holds up nobody else.
func TestAFullTenantHoldsUpNobody(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Limits.MaxMessagesPerKey = 1 })
	r.publish(0, "full", "a")
	r.mover()
	for range 20 {
		r.delayed(150*time.Millisecond, Publication{Level: 0, Key: "full"})
	}
	r.delayed(300*time.Millisecond, Publication{Level: 0, Key: "free", Data: []byte("x")})
	a := r.asker()
	if got := payloads(a.take(a.at(0, "free"), 1)); got != "x " {
		t.Errorf("got %s", got)
	}
	r.due(20)
}

// A message that the queue's stream does not take is no reason to move the others more slowly.
func TestATooLargeMessageHoldsUpNobody(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, nil)
	stream, err := r.wire.JS.Stream(within(t), r.names.Stream(r.q.Name))
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = 1000
	if _, err := r.wire.JS.UpdateStream(within(t), cfg); err != nil {
		t.Fatal(err)
	}
	r.delayed(500*time.Millisecond, Publication{Data: make([]byte, 2000)})
	r.due(1)
	defer r.mover()()
	begin := time.Now()
	for i := range 12 { // one by one: after each failure of the mover its wait would double
		r.delayed(500*time.Millisecond, Publication{Data: []byte("small")})
		until(t, "it is moved", func() bool { return r.stored() == uint64(i+1) })
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the others were moved in %v", took)
	}
	if n := r.leftDelayed(); n != 1 {
		t.Errorf("%d are left among the delayed ones", n)
	}
}

// What a raw publisher puts among the due messages is moved as well, where it belongs.
func TestARawDueMessage(t *testing.T) {
	r := newRig(t, arrivalOrder)
	for _, subject := range []string{"due.p0.a.x", "due.p00.a.y", "due.z"} {
		m := &nats.Msg{Subject: r.names.DelayPrefix("orders") + subject, Data: []byte(subject)}
		if _, err := r.wire.JS.PublishMsg(within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	r.mover()
	a := r.asker()
	if got := payloads(a.take(a.at(0, ""), 1)); got != "due.p0.a.x " {
		t.Errorf("got %s", got)
	}
	a.take(a.at(2, ""), 2)
	until(t, "nothing is left", func() bool {
		info, err := r.wire.JS.Stream(within(t), "FL_DELAY_orders")
		return err == nil && info.CachedInfo().State.Msgs == 0
	})
}

// Whoever looks for a copy and finds none looks whether the original is still there: its copy may have been finished meanwhile.
func TestAnOriginalThatWentWhileItsCopyWasLookedFor(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { arrivalOrder(q); q.DedupWindow = 100 * time.Millisecond })
	r.delayed(150*time.Millisecond, Publication{Level: 0})
	r.delayed(150*time.Millisecond, Publication{Level: 0})
	r.due(2)
	consumer, err := r.ensureMover(within(t), r.q.Name)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := fetch(consumer.Fetch(2, jetstream.FetchMaxWait(patience)))
	if err != nil || len(msgs) != 2 {
		t.Fatal(msgs, err)
	}
	m := &mover{c: r.Client, queue: r.q.Name}
	due := m.read(r.q, msgs)
	gone := make(chan Finish, 1)
	r.drop("FL_DELAY_orders", due[0].seq, 1, func(f Finish) { gone <- f })
	if f := wait(t, gone, "the deletion"); f != Finished {
		t.Fatal(f)
	}
	if err := m.skipMoved(within(t), r.q, due, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if due[0].msg != nil || due[1].msg == nil {
		t.Errorf("moves the one that is gone: %t, the other: %t", due[0].msg != nil, due[1].msg != nil)
	}
}
