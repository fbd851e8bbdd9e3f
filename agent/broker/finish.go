package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// admit decides whether a message that just arrived may be handed out: not before its time, not when it has expired, not when
// this agent is running it already, and not when it was given up, or has to be now.
func (c *Client) admit(m *Message) bool {
	rec := c.attempts.number(m)
	expired := m.Expired(time.Now())
	if left := time.Until(rec.notBefore()); rec.NotBefore != 0 && left > 0 && !expired {
		c.metrics.HeldBack.Add(1)
		m.heldUntil = rec.notBefore()
		c.Return(m, Return{NotBefore: rec.notBefore(), Reason: rec.Error, Dead: rec.Dead}, func(error) {})
		return false
	}
	if c.Live != nil && c.Live(m) {
		c.metrics.Refreshed.Add(1)
		return false
	}
	if c.holds.renew(m) {
		c.metrics.Refreshed.Add(1)
		return false
	}
	if expired && rec.Dead == "" { // what was given up before it expired has a dead letter, or is about to
		c.expire(m)
		return false
	}
	c.holds.take(m)
	if burial, yes := c.givenUp(m, rec); yes {
		c.buryTaken(m, burial)
		return false
	}
	return true
}

var (
	inProgress = []byte("+WPI")
	negative   = []byte("-NAK")
)

// Extend tells JetStream that the message is still being worked on: its acknowledgement wait starts again. Nothing is
// reported; a lost one is made good by the next.
func (c *Client) Extend(m *Message) { _ = c.wire.NC.Publish(m.handle().reply, inProgress) }

// Return gives a message back to its lane. What must not be forgotten (attempts, not-before time) is written first. done
// is called when it was given back, from another goroutine or this one, and must not block: whoever asks the lane from
// then on gets it ahead of new messages. done gets an error when JetStream did not confirm; the message is given back all
// the same, at the latest after its acknowledgement wait.
//
// A record that cannot be written is no error: the message has gone back, and whoever were told otherwise would go on with
// what somebody else has. This agent remembers it, and writes it when NATS answers again. To other agents the lane's
// consumer tells until then, as long as it lives, how often the message was delivered and for how long it is to wait.
//
// A message of a tenure that is over is only let go: it is the next holder's, as are its records.
func (c *Client) Return(m *Message, r Return, done func(error)) {
	m.letGo()
	if !m.held() {
		done(ErrTenureOver)
		return
	}
	c.keep(m, c.attempts.record(m, r), 1, func() {
		body := negative
		if left := time.Until(r.NotBefore); !r.NotBefore.IsZero() && left > 0 {
			// A little late rather than a little early.
			body = append(append([]byte(nil), negative...), ` {"delay": `+strconv.FormatInt(int64(left+2*time.Millisecond), 10)+`}`...)
		}
		c.metrics.Returned.Add(1)
		c.negate(m, body, done)
	})
}

// keep writes a record, again while its outcome is unknown, and goes on; what cannot be written is kept for later. It is
// not written again when the message's tenure is over: the next holder may have written a newer one.
func (c *Client) keep(m *Message, record []byte, try int, then func()) {
	c.bucket.Put(attemptKey{m.Queue, m.Seq}.String(), record, func(_ uint64, err error) {
		if errors.Is(err, ErrOutcomeUnknown) && try < writeTries && c.Connected() && m.held() {
			c.keep(m, record, try+1, then)
			return
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			c.seldom.Warn("the attempts of a returned message could not be written; trying again", "queue", m.Queue, "seq", m.Seq, "error", err)
			if m.held() {
				c.attempts.later(attemptKey{m.Queue, m.Seq}, record)
			}
		}
		then()
	})
}

// negate sends a negative acknowledgement and waits until JetStream has worked on it: it does so beside what is asked of
// the lane, and a question right behind an unconfirmed one gets newer messages first. An error means that JetStream gives
// the message to someone else after its acknowledgement wait, if not before.
func (c *Client) negate(m *Message, body []byte, done func(error)) {
	c.wire.Writes.Do(&nats.Msg{Subject: m.handle().reply, Data: body}, func(_ *nats.Msg, err error) {
		if errors.Is(err, ErrUnavailable) && c.Connected() {
			err = nil // its lane's consumer is gone; the next one begins with what is not finished
		}
		done(err)
	})
}

// Finish deletes a message from its stream and reports what became of it, once JetStream has answered. A try without an
// answer is repeated: deleting again does no harm. done is called from another goroutine, or from this one when the
// connection is gone; it must not block. At most 64 deletes of an agent are under way at a time; the others wait in order.
//
// A message of a tenure that is over is not deleted: the outcome is unknown then, as it is when the tenure ends before there
// is an answer.
//
// A message that was delayed is deleted only when nothing is left of it among the delayed ones: see [Client.MoveDelayed].
func (c *Client) Finish(m *Message, done func(Finish)) {
	if m.delayed == "" {
		c.finish(m, 1, done)
		return
	}
	c.clearDelayed(m.Queue, m.delayed, func(err error) {
		if err != nil {
			c.metrics.DeletesUnknown.Add(1)
			done(FinishUnknown)
			return
		}
		c.finish(m, 1, done)
	})
}

func (c *Client) finish(m *Message, try int, report func(Finish)) {
	c.wire.Deletes.Start(&deletion{c: c, m: m, try: try, report: report})
}

// deletion is one try to delete a message, and who waits for it.
type deletion struct {
	c      *Client
	m      *Message
	try    int
	report func(Finish)
}

// Subject implements wire.Exchange.
func (d *deletion) Subject() string {
	if s := d.m.Lane.remove; s != "" {
		return s
	}
	return wire.DeletePrefix + d.m.Lane.stream // of a message that was not taken from a lane
}

// Still implements wire.Exchange.
func (d *deletion) Still() bool { return d.m.held() }

// Bytes implements wire.Exchange.
func (d *deletion) Bytes() int { return 0 }

// Send implements wire.Exchange.
func (d *deletion) Send(nc *nats.Conn, reply string, scratch []byte) ([]byte, error) {
	scratch = wire.AppendDelete(scratch, d.m.Seq)
	return scratch, nc.PublishRequest(d.Subject(), reply, scratch)
}

// Done implements wire.Exchange.
func (d *deletion) Done(answer *nats.Msg, err error) {
	c, m := d.c, d.m
	if err != nil {
		if errors.Is(err, ErrOutcomeUnknown) {
			m.doubt()
			if d.try < writeTries && c.Connected() && m.held() {
				c.finish(m, d.try+1, d.report)
				return
			}
		}
		c.metrics.DeletesUnknown.Add(1)
		d.report(FinishUnknown)
		return
	}
	result := c.deleted(answer)
	if result == AlreadyFinished && m.doubtful() {
		result = Finished // it was us, in a try that was not answered
	}
	if result != FinishUnknown {
		c.holds.finish(m)
		c.forgetAttempts(m)
	}
	d.report(result)
}

var successMark = []byte(`"success":true`)

// deleted reads and counts JetStream's answer to the delete of a message of a queue.
func (c *Client) deleted(answer *nats.Msg) Finish {
	f := c.readDeleted(answer)
	switch f {
	case Finished:
		c.metrics.Deletes.Add(1)
	case FinishUnknown:
		c.metrics.DeletesUnknown.Add(1)
	}
	return f
}

// readDeleted reads JetStream's answer to a delete.
func (c *Client) readDeleted(answer *nats.Msg) Finish {
	if bytes.Contains(answer.Data, successMark) {
		return Finished
	}
	var r struct {
		Error *struct {
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if json.Unmarshal(answer.Data, &r) == nil && r.Error != nil {
		switch {
		case r.Error.ErrCode == 10043: // no such sequence
			return AlreadyFinished
		case r.Error.ErrCode == 10057 && (r.Error.Description == "no message found" || r.Error.Description == "deleted message" || r.Error.Description == "stream store EOF"):
			return AlreadyFinished
		}
		c.seldom.Warn("JetStream refused to delete a message", "code", r.Error.ErrCode, "error", r.Error.Description)
	}
	return FinishUnknown
}

// forgetAttempts removes the record of a message that is finished.
func (c *Client) forgetAttempts(m *Message) {
	if _, ok := c.attempts.lookup(m.Queue, m.Seq); ok {
		key := attemptKey{m.Queue, m.Seq}
		c.attempts.forgetUnwritten(key)
		c.bucket.Delete(key.String(), func(uint64, error) {}) // also then: a write that was not answered can have been done
	}
}
