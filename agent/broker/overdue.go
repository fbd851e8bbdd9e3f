package broker

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// JetStream stores a delayed message again when its time has come, and tries that once: when it is refused at that moment, because
// the server's store is full or the stream has no leader, the message stays where it is until the server is started
// again or another one leads the stream. So movers look for messages that are overdue, and do what JetStream should have done.

const (
	// overdueAfter is how long after its time a message is overdue. JetStream takes less than a second, unless it has very
	// many at once.
	overdueAfter = 10 * time.Second
	// overduePause is the time between two looks of a mover; a half to one and a half of it, so that agents take turns.
	overduePause = time.Minute
	// overdueShare bounds what looks cost: the pause is at least this many times as long as one has taken.
	overdueShare = 100
	// overdueMost is how many messages one look brings on.
	overdueMost = 500
)

// lookForOverdue brings on what is overdue, if it is time to look again. What fails is done by the next look.
func (m *mover) lookForOverdue(ctx context.Context) {
	began := time.Now()
	if began.Before(m.look) {
		return
	}
	if first := m.look.IsZero(); first {
		m.look = began.Add(rand.N(overduePause))
		return
	}
	brought, err := m.bringOverdue(ctx, overdueAfter)
	m.look = time.Now().Add(max(overduePause/2+rand.N(overduePause), overdueShare*time.Since(began)))
	if brought > 0 {
		m.worked = true
		m.log.Warn("JetStream has not stored delayed messages again whose time had come; the agent has done it", "queue", m.queue, "messages", brought)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		m.log.Warn("overdue delayed messages cannot be looked for; trying again", "queue", m.queue, "error", err)
	}
}

// bringOverdue makes due what should have been due for so long, by the server's clock, and returns how many that were.
func (m *mover) bringOverdue(ctx context.Context, late time.Duration) (brought int, err error) {
	all, now, err := m.c.delayedUnder(ctx, m.queue, names.ScheduledToken+".>")
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(d names.Delayed) bool { return now.Sub(d.At) < late })
	slices.SortFunc(all, func(a, b names.Delayed) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Handle, b.Handle)) })
	for _, d := range all[:min(len(all), overdueMost)] {
		done, err := m.bring(ctx, d)
		if err != nil {
			return brought, err
		}
		if done {
			brought++
		}
	}
	return brought, nil
}

// bring stores one message on the subject of due ones, where there must be none yet, and then deletes it where it waited. Should the
// agent stop in between, or JetStream be a moment late after all, then it becomes due twice: the copy in the queue has an id
// that is made of the handle, so that a second one is refused.
func (m *mover) bring(ctx context.Context, d names.Delayed) (done bool, err error) {
	c, stream, prefix := m.c, m.c.names.DelayStream(m.queue), m.c.names.DelayPrefix(m.queue)
	s, err := c.wire.Read(ctx, stream, wire.Look{Seq: 1, Filter: prefix + d.Subject()})
	if err != nil || s == nil {
		return false, err // JetStream, or another agent, was faster
	}
	h := make(nats.Header, len(s.Header)+2)
	for name, values := range s.Header {
		if !hasPrefixFold(name, serverPrefix) {
			h[name] = values
		}
	}
	h[headerMsgID] = []string{delayedMark + d.Handle}
	h["Nats-Expected-Last-Subject-Sequence"] = []string{"0"}
	d.Due = true
	_, err = c.storeAndWait(ctx, &nats.Msg{Subject: prefix + d.Subject(), Header: h, Data: s.Data})
	if errors.Is(err, ErrConflict) {
		return false, nil // it is due already, or about to be
	}
	if err != nil {
		return false, err
	}
	gone := make(chan Finish, 1)
	c.drop(stream, s.Seq, 1, func(f Finish) { gone <- f })
	select {
	case <-gone: // if that failed, the next look finds it again
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}
