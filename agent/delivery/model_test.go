package delivery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"pgregory.net/rapid"
)

// TestBookAgainstAModel plays random programs of everything that can happen to a book, in a bubble with its own clock,
// against a model that is a plain list. JetStream's outcomes come when the program says so. After each step everything
// that an app, an owner or JetStream can see must be what the model says.
func TestBookAgainstAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			m := newModel(rt)
			defer m.close()
			rt.Repeat(map[string]func(*rapid.T){
				"hand":      m.hand,
				"written":   m.written,
				"unwritten": m.unwritten,
				"settle":    m.settle,
				"finish":    m.finish,
				"giveBack":  m.giveBack,
				"bury":      m.bury,
				"sleep":     m.sleep,
				"session":   m.session,
				"end":       m.end,
				"refresh":   m.refresh,
				"returnAll": m.returnAll,
				"":          m.check,
			})
		})
	})
}

type modelDelivery struct {
	token    string
	d        Delivery
	m        *broker.Message // the latest handle
	state    string          // live, finishing, returning, settled, expired
	writing  bool
	written  bool
	lost     bool
	lease    time.Duration
	deadline time.Time
	session  *modelSession
	asked    []*asked // settlements that wait for the outcome, the first is being carried out
}

type asked struct {
	want api.Status // "" as long as it must not be answered
	got  api.Status
}

type modelSession struct {
	s     *Session
	ended bool
}

type modelReturn struct {
	d        *modelDelivery // nil if nobody waits for the outcome
	m        *broker.Message
	counts   broker.Counting
	notPast  time.Time
	rejected bool
	dead     broker.DeadReason // it was given up, and could not be buried
}

// verdict is why the message is given up, or "".
func (r *modelReturn) verdict() broker.DeadReason {
	switch {
	case r.rejected:
		return broker.DeadRejected
	case r.counts == broker.AnAttempt && r.m.Queue == "limited" && r.m.Attempt >= 3:
		return broker.DeadMaxAttempts
	}
	return ""
}

type model struct {
	f *fakeBroker
	b *Book
	o *fakeOwner

	all      []*modelDelivery
	sessions []*modelSession
	acks     []*modelDelivery // in the order in which JetStream was asked
	returns  []modelReturn    // all, in order
	answered int              // how many of returns have an outcome
	burials  []modelReturn    // all, in order
	dug      int              // how many of burials have an outcome
	asked    []*asked
	handed   int
	closed   int
	leaving  bool // the agent goes away: nothing that is lost counts
}

func newModel(rt *rapid.T) *model {
	f := &fakeBroker{manual: true}
	return &model{f: f, b: New(f, fixed{}), o: &fakeOwner{}}
}

func (m *model) close() {
	for m.f.finish(broker.Finished) || m.f.giveBack(nil) || m.f.buryOne(broker.Finished, nil) {
	}
	m.b.Close()
	synctest.Wait()
}

// back notes what goes back for one cause.
func (m *model) back(rs []modelReturn) {
	slices.SortStableFunc(rs, func(x, y modelReturn) int { return cmp.Compare(x.m.Seq, y.m.Seq) })
	for _, r := range rs {
		if r.verdict() != "" {
			m.burials = append(m.burials, r)
		} else {
			m.returns = append(m.returns, r)
		}
	}
}

func (m *model) lose(d *modelDelivery) modelReturn {
	d.state = "expired"
	r := modelReturn{m: d.m}
	if d.written {
		r.counts = broker.AnAttempt
	}
	return r
}

// expire ends the leases that are over by now.
func (m *model) expire() {
	var due []*modelDelivery
	for _, d := range m.all {
		if d.state == "live" && !d.deadline.After(time.Now()) {
			due = append(due, d)
		}
	}
	// Each instant is one cause.
	slices.SortStableFunc(due, func(x, y *modelDelivery) int {
		return cmp.Or(x.deadline.Compare(y.deadline), cmp.Compare(x.m.Seq, y.m.Seq))
	})
	for _, d := range due {
		m.back([]modelReturn{m.lose(d)})
	}
}

func (m *model) pick(rt *rapid.T, keep func(*modelDelivery) bool) *modelDelivery {
	var fit []*modelDelivery
	for _, d := range m.all {
		if keep(d) {
			fit = append(fit, d)
		}
	}
	if len(fit) == 0 {
		rt.Skip()
	}
	return rapid.SampledFrom(fit).Draw(rt, "delivery")
}

func (m *model) hand(rt *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(rt, "n")
	lease := time.Duration(rapid.IntRange(1, 40).Draw(rt, "lease")) * time.Second
	var s *modelSession
	var session *Session
	if len(m.sessions) > 0 && rapid.Bool().Draw(rt, "in a session") {
		s = rapid.SampledFrom(m.sessions).Draw(rt, "session")
		session = s.s
	}
	msgs := messages(rapid.SampledFrom([]string{"q", "limited"}).Draw(rt, "queue"), uint64(m.handed+1), n)
	for _, x := range msgs {
		x.Attempt = rapid.IntRange(1, 4).Draw(rt, "attempt")
	}
	m.handed += n
	slices.Reverse(msgs)
	ds, err := m.b.Hand(m.o, msgs, lease, session)
	if s != nil && s.ended {
		if !errors.Is(err, ErrSessionEnded) {
			rt.Fatalf("Hand to an ended session: %v", err)
		}
		var rs []modelReturn
		for _, x := range msgs {
			rs = append(rs, modelReturn{m: x})
		}
		m.back(rs)
		return
	}
	if err != nil || len(ds) != n {
		rt.Fatalf("Hand: %d of %d, %v", len(ds), n, err)
	}
	for i, d := range ds {
		m.all = append(m.all, &modelDelivery{
			token: d.Token, d: d, m: msgs[i], state: "live", writing: true, lease: lease, deadline: time.Now().Add(lease), session: s,
		})
	}
}

func (m *model) written(rt *rapid.T) {
	d := m.pick(rt, func(d *modelDelivery) bool { return !d.written })
	m.b.Written([]Delivery{d.d})
	d.writing, d.written = false, !m.leaving
	if d.orphaned() {
		m.back([]modelReturn{m.lose(d)})
	}
}

// orphaned tells that its session ended while nobody knew yet whether its app got it.
func (d *modelDelivery) orphaned() bool {
	return d.state == "live" && d.session != nil && d.session.ended
}

func (m *model) unwritten(rt *rapid.T) {
	d := m.pick(rt, func(d *modelDelivery) bool { return !d.written })
	m.b.Unwritten([]Delivery{d.d})
	d.writing = false
	if d.state == "live" {
		m.back([]modelReturn{m.lose(d)})
	}
}

func (m *model) settle(rt *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(rt, "list")
	var list []api.Settlement
	var asks []*asked
	var backs []modelReturn
	for range n {
		d := m.pick(rt, func(*modelDelivery) bool { return true })
		s := api.Settlement{Token: d.token, Result: rapid.SampledFrom([]api.Result{api.Ack, api.Nack, api.Reject, api.Extend}).Draw(rt, "result")}
		if s.Result == api.Nack && rapid.Bool().Draw(rt, "at once") {
			s.Delay = "0s"
		}
		a := &asked{}
		list, asks = append(list, s), append(asks, a)
		switch {
		case d.orphaned():
			d.written = !m.leaving
			a.want = api.StatusExpired
			backs = append(backs, m.lose(d))
		case d.state == "settled":
			a.want = api.StatusAlreadySettled
		case d.state == "expired":
			a.want = api.StatusExpired
		case d.state == "finishing" || d.state == "returning":
			d.asked = append(d.asked, a)
		default:
			backs = append(backs, m.settleLive(d, s, a)...)
		}
	}
	m.back(backs)
	m.asked = append(m.asked, asks...)
	go func() {
		for i, r := range m.b.Settle(context.Background(), list) {
			asks[i].got = r.Status
		}
	}()
	synctest.Wait()
}

func (m *model) settleLive(d *modelDelivery, s api.Settlement, a *asked) []modelReturn {
	switch s.Result {
	case api.Ack:
		d.state, d.asked = "finishing", []*asked{a}
		m.acks = append(m.acks, d)
		return nil
	case api.Extend:
		d.deadline = time.Now().Add(d.lease)
		a.want = api.StatusOK
		return nil
	}
	r := modelReturn{d: d, m: d.m, counts: broker.AnAttempt}
	if r.rejected = s.Result == api.Reject; !r.rejected && s.Delay == "" {
		r.notPast = time.Now().Add(time.Duration(d.m.Attempt) * time.Second)
	}
	d.state, d.asked = "returning", []*asked{a}
	return []modelReturn{r}
}

func (d *modelDelivery) answer(first, others api.Status) {
	for i, a := range d.asked {
		a.want = others
		if i == 0 {
			a.want = first
		}
	}
	d.asked = nil
}

func (m *model) finish(rt *rapid.T) {
	if len(m.acks) == 0 {
		rt.Skip()
	}
	d := m.acks[0]
	m.acks = m.acks[1:]
	o := rapid.SampledFrom([]broker.Finish{broker.Finished, broker.AlreadyFinished, broker.FinishUnknown}).Draw(rt, "outcome")
	if !m.f.finish(o) {
		rt.Fatalf("JetStream was not asked to finish %s", d.token)
	}
	switch {
	case o == broker.Finished:
		d.answer(api.StatusOK, api.StatusAlreadySettled)
		d.state = "settled"
		m.closed++
	case o == broker.AlreadyFinished:
		d.answer(api.StatusAlreadySettled, api.StatusAlreadySettled)
		d.state = "settled"
		m.closed++
	case d.lost:
		d.answer(api.StatusUnavailable, api.StatusUnavailable)
		m.back([]modelReturn{m.lose(d)})
	default:
		d.answer(api.StatusUnavailable, api.StatusUnavailable)
		d.state = "live"
		synctest.Wait()
		m.expire()
	}
}

func (m *model) giveBack(rt *rapid.T) {
	if m.answered == len(m.returns) {
		rt.Skip()
	}
	var err error
	if rapid.Bool().Draw(rt, "fails") {
		err = errors.New("away")
	}
	if !m.f.giveBack(err) {
		rt.Fatalf("JetStream was not asked to take %d back", m.returns[m.answered].m.Seq)
	}
	r := m.returns[m.answered]
	m.answered++
	d := r.d
	switch {
	case d == nil:
	case err == nil && !r.rejected:
		d.answer(api.StatusOK, api.StatusAlreadySettled)
		d.state = "settled"
	case r.dead != "" || d.lost || d.session != nil && d.session.ended:
		d.answer(api.StatusUnavailable, api.StatusUnavailable)
		d.state = "expired"
	default:
		d.answer(api.StatusUnavailable, api.StatusUnavailable)
		d.state = "live"
		synctest.Wait()
		m.expire()
		return
	}
	m.closed++
}

func (m *model) bury(rt *rapid.T) {
	if m.dug == len(m.burials) {
		rt.Skip()
	}
	outcome := rapid.SampledFrom([]string{"buried", "already gone", "nobody there", "no dead letters"}).Draw(rt, "outcome")
	f, err := broker.Finished, error(nil)
	switch outcome {
	case "already gone":
		f = broker.AlreadyFinished
	case "nobody there":
		f, err = broker.FinishUnknown, broker.ErrUnavailable
	case "no dead letters":
		f, err = broker.FinishUnknown, broker.ErrDeadLetters
	}
	r := m.burials[m.dug]
	if !m.f.buryOne(f, err) {
		rt.Fatalf("JetStream was not asked to bury %d", r.m.Seq)
	}
	m.dug++
	d := r.d
	switch {
	case err == nil:
		m.closed++
		if d != nil && f == broker.Finished {
			d.answer(api.StatusOK, api.StatusAlreadySettled)
			d.state = "settled"
		} else if d != nil {
			d.answer(api.StatusAlreadySettled, api.StatusAlreadySettled)
			d.state = "settled"
		}
	case outcome == "nobody there" && d != nil && !d.lost && (d.session == nil || !d.session.ended):
		d.answer(api.StatusUnavailable, api.StatusUnavailable)
		d.state = "live"
		synctest.Wait()
		m.expire()
	default: // it goes back with the verdict, after the longest backoff
		r.dead, r.notPast = r.verdict(), time.Now().Add(time.Minute)
		m.returns = append(m.returns, r)
	}
}

func (m *model) sleep(rt *rapid.T) {
	// Odd milliseconds, so that a step never falls on a deadline to be.
	time.Sleep(time.Duration(rapid.IntRange(1, 15_000).Draw(rt, "ms"))*time.Millisecond + time.Microsecond)
	synctest.Wait()
	m.expire()
}

func (m *model) session(rt *rapid.T) {
	m.sessions = append(m.sessions, &modelSession{s: m.b.OpenSession()})
}

func (m *model) end(rt *rapid.T) {
	if len(m.sessions) == 0 {
		rt.Skip()
	}
	s := rapid.SampledFrom(m.sessions).Draw(rt, "session")
	m.b.End(s.s)
	s.ended = true
	var rs []modelReturn
	for _, d := range m.all {
		if d.session != s {
			continue
		}
		switch {
		case d.state == "finishing":
			d.lost = true
		case d.state != "live":
		case d.writing:
			if latest := time.Now().Add(time.Second); latest.Before(d.deadline) {
				d.deadline = latest
			}
		default:
			rs = append(rs, m.lose(d))
		}
	}
	m.back(rs)
}

func (m *model) refresh(rt *rapid.T) {
	d := m.pick(rt, func(*modelDelivery) bool { return true })
	fresh := *d.m
	got, want := m.b.Refresh(&fresh), d.state == "live" || d.state == "finishing"
	if got != want {
		rt.Fatalf("Refresh of a %s delivery: %v", d.state, got)
	}
	if want {
		d.m = &fresh
	}
}

func (m *model) returnAll(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
		rt.Skip()
	}
	m.b.ReturnAll()
	m.leaving = true
	var rs []modelReturn
	for _, d := range m.all {
		switch d.state {
		case "live":
			d.written = false
			rs = append(rs, m.lose(d))
		case "finishing", "returning":
			d.written, d.lost = false, true
		}
	}
	m.back(rs)
}

func (m *model) check(rt *rapid.T) {
	synctest.Wait()
	for i, a := range m.asked {
		// A list is answered as a whole: until then nothing of it is known.
		if a.got != "" && a.got != a.want {
			rt.Fatalf("settlement %d was answered %q, want %q", i, a.got, a.want)
		}
	}
	if len(m.acks) == 0 && m.answered == len(m.returns) && m.dug == len(m.burials) {
		for i, a := range m.asked {
			if a.got == "" {
				rt.Fatalf("settlement %d was never answered, want %q", i, a.want)
			}
		}
	}
	got := m.f.gaveBack()
	if len(got) != len(m.returns) {
		rt.Fatalf("%d messages were given back, want %d: %s", len(got), len(m.returns), describe(got))
	}
	for i, r := range m.returns {
		if got[i].m != r.m || got[i].how.Counts != r.counts || !got[i].how.NotBefore.Equal(r.notPast) || got[i].how.Dead != r.dead {
			rt.Fatalf("return %d: %d %+v, want %d counts=%v not before %v", i, got[i].m.Seq, got[i].how, r.m.Seq, r.counts, r.notPast)
		}
	}
	buried := m.f.gaveUp()
	if len(buried) != len(m.burials) {
		rt.Fatalf("%d messages were given up, want %d", len(buried), len(m.burials))
	}
	for i, r := range m.burials {
		if buried[i].m != r.m || buried[i].as.Reason != r.verdict() || buried[i].as.Attempts != r.m.Attempt {
			rt.Fatalf("burial %d: %d %+v, want %d for %s", i, buried[i].m.Seq, buried[i].as, r.m.Seq, r.verdict())
		}
	}
	if m.o.slots() != m.closed || m.b.InFlight() != m.handed-m.closed {
		rt.Fatalf("%d slots released and %d in flight, want %d and %d", m.o.slots(), m.b.InFlight(), m.closed, m.handed-m.closed)
	}
	isLive := 0
	for _, d := range m.all {
		if d.state == "live" || d.state == "finishing" {
			isLive++
		}
	}
	if s := m.b.Stats(); s.Live != isLive {
		rt.Fatalf("%d live, want %d", s.Live, isLive)
	}
}
