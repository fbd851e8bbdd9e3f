package broker

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// The consumer of a lane reads the copy of the stream on its own server. In a cluster that copy can be behind: after a server
// was started again it takes a while until it knows what was deleted meanwhile, and a lane that begins there brings messages
// that are finished. A server that is cut off from the others gives out again what somebody on the other side has finished,
// when it does not hear of that. So what comes from a lane that has just been made, and what comes once more, is handed on
// only when the stream's leader still has it. In between, everything of that lane keeps its order.

// freshSpan is for how long after it was made a lane is not believed. It begins again with each message that the leader does
// not have any more.
const freshSpan = 10 * time.Second

// fresh is what a feed knows of the youth of a lane. It is guarded by the feed.
type fresh struct {
	until time.Time // messages are looked up until then
	last  uint64    // the consumer's number of the last message that came
	line  []*arrival
	busy  bool // somebody works on the line
}

// arrival is something that came from a lane and waits for its turn.
type arrival struct {
	ready bool
	run   func()
}

// begin notes that the lane was made, or found.
func (f *fresh) begin(now time.Time, replicated bool) {
	if replicated {
		f.until, f.last = now.Add(freshSpan), 0
	}
}

// doubts tells whether the message with this number has to wait: it has to be looked up, or others before it are. again is
// true for one that was given out before. A consumer's numbers ascend; when they begin again, it was made anew by somebody
// else.
func (f *fresh) doubts(number uint64, again bool, now time.Time, replicated func() bool) bool {
	if number <= f.last && replicated() {
		f.until = now.Add(freshSpan)
	}
	f.last = number
	return len(f.line) > 0 || f.busy || now.Before(f.until) || again && replicated()
}

// wait puts something that is not ready at the end of the line.
func (f *fresh) wait() *arrival {
	a := new(arrival)
	f.line = append(f.line, a)
	return a
}

// behind puts something at the end of the line, if there is one.
func (f *fresh) behind(run func()) bool {
	if len(f.line) == 0 && !f.busy {
		return false
	}
	f.line = append(f.line, &arrival{ready: true, run: run})
	return true
}

// replicated tells whether a queue's stream has copies on several servers.
func (c *Client) replicated(queue string) bool {
	if c.Definition == nil {
		return false
	}
	def, ok := c.Definition(queue)
	return ok && def.Storage.Replicas > 1
}

// look asks the stream's leader whether it has a message, and then goes on with it.
func (f *Feed) look(state *laneState, a *arrival, m *nats.Msg, meta *nats.MsgMetadata, q *question) {
	body := []byte(`{"seq":` + strconv.FormatUint(meta.Sequence.Stream, 10) + "}")
	f.c.wire.Deletes.Do(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + meta.Stream, Data: body}, func(answer *nats.Msg, err error) {
		var r struct {
			Error *wire.APIError `json:"error"`
		}
		if err == nil {
			err = json.Unmarshal(answer.Data, &r)
		}
		switch {
		case err == nil && r.Error == nil:
			f.turn(state, a, func() { f.arrived(state, q, m, meta) })
		case err == nil && r.Error.ErrCode == wire.CodeNoMessage:
			f.c.log.Debug("a lane brought a message that is finished; it is not handed out", "queue", state.lane.Layout.Queue, "seq", meta.Sequence.Stream)
			f.turn(state, a, func() {
				f.c.wire.Writes.Do(&nats.Msg{Subject: m.Reply, Data: acknowledged}, func(*nats.Msg, error) {})
				f.skipped(state, q)
			})
		default: // the leader cannot be asked now: it goes back, and that is no attempt
			f.turn(state, a, func() {
				if msg := f.c.decode(state.lane, m, meta); f.c.admit(msg) {
					rec, _ := f.c.attempts.lookup(msg.Queue, msg.Seq)
					f.c.Return(msg, Return{Reason: rec.Error}, func(error) {})
				}
				f.skipped(state, q)
			})
		}
	})
}

var acknowledged = []byte("+ACK")

// skipped is for a message that is not handed on: it is not there any more, or perhaps.
func (f *Feed) skipped(state *laneState, q *question) {
	f.mu.Lock()
	state.fresh.until = time.Now().Add(freshSpan)
	if q == nil || f.open[q.id] != q {
		f.mu.Unlock()
		return
	}
	q.left--
	q.answer.Held++
	done := q.left <= 0
	f.mu.Unlock()
	if done {
		f.finish(q, func(*Answer) {})
	}
}

// turn makes an arrival ready, and works on all that is, in order.
func (f *Feed) turn(state *laneState, a *arrival, run func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.ready, a.run = true, run
	if state.fresh.busy {
		return // whoever is at it goes on with it
	}
	state.fresh.busy = true
	for len(state.fresh.line) > 0 && state.fresh.line[0].ready {
		next := state.fresh.line[0]
		state.fresh.line = slices.Delete(state.fresh.line, 0, 1)
		f.mu.Unlock()
		next.run()
		f.mu.Lock()
	}
	state.fresh.busy = false
}
