package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
)

// drainPause is the longest that a pull waits while the agent drains: long enough that clients do not spin.
const drainPause = time.Second

// wholeAnswer is up to where an answer is kept back, to know its length. Beyond it, it is sent in pieces of this size.
const wholeAnswer = 1 << 20

// take is what a pull asks for.
type take struct {
	request dispatch.Request
	lease   time.Duration
	session *delivery.Session
}

// readTake reads the parameters of a pull.
func (x *exchange) readTake(q url.Values) (take, error) {
	var t take
	standard, ok := x.Lease(x.name)
	if !ok {
		return t, &api.Error{Code: api.CodeUnknownCapsule, Message: fmt.Sprintf("there is no capsule %.64q: GET /v1/status lists those of this agent", x.name)}
	}
	if x.Pullers != nil {
		if err := x.may(x.Pullers(x.name)); err != nil {
			return t, err
		}
	}
	var err error
	if t.request.Max, err = integer(q, "max", 1, maxPull, 1); err != nil {
		return t, err
	}
	if t.request.Wait, err = wait(q); err != nil {
		return t, err
	}
	if t.lease, err = lease(q, standard); err != nil {
		return t, err
	}
	t.session, err = x.findSession(q.Get("session"))
	return t, err
}

// findSession returns the session that a pull names; nil if it names none.
func (x *exchange) findSession(id string) (*delivery.Session, error) {
	switch id {
	case "":
		return nil, nil
	case "connection":
		return x.conn().ownSession(), nil
	}
	s, ok := x.Book.Session(id)
	if !ok {
		return nil, unknownSession()
	}
	return s, nil
}

func unknownSession() *api.Error {
	return &api.Error{Code: api.CodeUnknownSession, Message: "there is no such session: its connection has ended, or it is another agent's; open one with GET /v1/session"}
}

// pull hands out messages, and settles earlier ones beside that.
func (x *exchange) pull() error {
	q, err := x.query("max", "wait", "lease", "session")
	if err != nil {
		return err
	}
	t, err := x.readTake(q)
	if err != nil {
		return err
	}
	list, err := x.settlements()
	if err != nil {
		return err
	}
	failed := func() []api.SettleResult { return nil }
	if len(list) > 0 {
		failed = x.settleBeside(&t, list)
	}
	h, err := x.takeAndHand(&t, failed)
	if err != nil {
		return err
	}
	return x.answerPull(h, failed())
}

// takeAndHand asks the capsule for messages, and enters them into the book. The lease begins when the answer can be
// written, so not before the settlements are done. When none of the messages can be handed out or read, it asks again.
func (x *exchange) takeAndHand(t *take, settled func() []api.SettleResult) (handful, error) {
	end := time.Now().Add(t.request.Wait)
	for try := 1; ; try++ {
		ds, took, err := x.takeOnce(t, settled)
		if err != nil || !took {
			return handful{}, err
		}
		if h := x.open(ds); len(h.ds) > 0 {
			if c := x.conn(); c != nil {
				c.handed = delivery.AppendIDs(c.handed[:0], h.ds)
			}
			return h, nil
		}
		t.request.Wait = max(time.Until(end), 0)
		if t.request.Wait == 0 && try >= triesInVain || x.r.Context().Err() != nil {
			return handful{}, nil
		}
	}
}

// triesInVain is how often a pull whose time is over asks again because nothing that it got could be read.
const triesInVain = 10

// takeOnce reports whether it took anything: that can be more than could be handed out.
func (x *exchange) takeOnce(t *take, settled func() []api.SettleResult) (ds []delivery.Delivery, took bool, err error) {
	msgs, owner, err := x.ask(t)
	settled()
	if err != nil || len(msgs) == 0 {
		return nil, false, err
	}
	ds, err = x.Book.Hand(owner, msgs, t.lease, t.session)
	switch {
	case errors.Is(err, delivery.ErrSessionEnded):
		err = unknownSession()
	case errors.Is(err, delivery.ErrClosed):
		err = context.Canceled
	}
	return ds, true, err
}

// ask waits for messages. It ends early with the client, its session, and the server.
func (x *exchange) ask(t *take) ([]*broker.Message, delivery.Owner, error) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(x.stopping, cancel)()
	if t.session != nil {
		defer context.AfterFunc(t.session.Context(), cancel)()
	}
	if x.draining() {
		pause(ctx, min(t.request.Wait, drainPause))
		return nil, nil, nil
	}
	msgs, owner, err := x.Capsules.Pull(ctx, x.name, t.request)
	switch {
	case err == nil || ctx.Err() == nil:
		return msgs, owner, err
	case t.session != nil && t.session.Context().Err() != nil:
		return nil, nil, unknownSession()
	case x.stopping.Err() != nil:
		return nil, nil, nil // the last answer of this agent: nothing
	}
	return nil, nil, err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// buffers keeps the memory of answers.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answerPull writes the answer of a pull. What cannot be written goes back.
func (x *exchange) answerPull(h handful, failed []api.SettleResult) error {
	ds := h.ds
	if len(ds) == 0 && len(failed) == 0 {
		x.noContent()
		return nil
	}
	e := encoder{frames: strings.Contains(x.r.Header.Get("Accept"), api.TypeFrames)}
	contentType := api.TypeNDJSON
	if e.frames {
		contentType = api.TypeFrames
	}
	pooled, _ := buffers.Get().(*[]byte)
	buf := (*pooled)[:0]
	defer func() {
		if cap(buf) <= 2*wholeAnswer {
			*pooled = buf[:0]
			buffers.Put(pooled)
		}
	}()
	if len(failed) > 0 {
		first, err := json.Marshal(api.SettleFailed{SettleFailed: failed})
		if err != nil {
			x.Book.Unwritten(ds)
			return err
		}
		buf = e.appendFirst(buf, first)
	}
	from := 0 // the first delivery in buf
	for i := range ds {
		buf = e.append(buf, &ds[i], h.payload(&ds[i]))
		if len(buf) < wholeAnswer || i == len(ds)-1 {
			continue
		}
		if x.begun {
			buf = x.freshPiece(&e, buf, &h, ds[from:i+1])
		} else {
			if kept := x.fresh(ds); len(kept) < len(ds) {
				h.ds = kept
				return x.answerPull(h, failed)
			}
			x.head(http.StatusOK, contentType, -1)
			x.bound(ds[from : i+1])
		}
		if _, err := x.w.Write(buf); err != nil {
			return x.unwritten(ds, err)
		}
		buf, from = buf[:0], i+1
	}
	if !x.begun {
		if kept := x.fresh(ds); len(kept) < len(ds) {
			h.ds = kept
			return x.answerPull(h, failed)
		}
		x.head(http.StatusOK, contentType, len(buf))
		x.bound(ds)
		return x.write(ds, buf)
	}
	return x.write(ds, x.freshPiece(&e, buf, &h, ds[from:]))
}

// freshPiece is the piece of a begun answer that holds ds, without what must not be written any more: writing the pieces
// before it can have taken long.
func (x *exchange) freshPiece(e *encoder, piece []byte, h *handful, ds []delivery.Delivery) []byte {
	kept := x.fresh(ds)
	x.bound(kept)
	if len(kept) == len(ds) {
		return piece
	}
	piece = piece[:0]
	for i := range kept {
		piece = e.append(piece, &kept[i], h.payload(&kept[i]))
	}
	return piece
}

// fresh gives back the deliveries that must not be written any more, and returns the others.
func (x *exchange) fresh(ds []delivery.Delivery) []delivery.Delivery {
	stale := delivery.Stale(ds)
	if len(stale) == 0 {
		return ds
	}
	x.Book.Unwritten(stale)
	return slices.DeleteFunc(slices.Clone(ds), func(d delivery.Delivery) bool {
		return slices.ContainsFunc(stale, func(s delivery.Delivery) bool { return s.Token == d.Token })
	})
}

// bound has what is written next broken off when the trust ends under which ds were taken: an app that reads slowly can take long.
func (x *exchange) bound(ds []delivery.Delivery) {
	if c := x.conn(); c != nil {
		c.setEnds(delivery.TrustEnds(ds))
	}
}

// write writes the last, or only, piece of an answer with deliveries.
func (x *exchange) write(ds []delivery.Delivery, piece []byte) error {
	if err := x.r.Context().Err(); err != nil {
		return x.unwritten(ds, err)
	}
	if _, err := x.w.Write(piece); err != nil {
		return x.unwritten(ds, err)
	}
	if err := x.rc.Flush(); err != nil {
		return x.unwritten(ds, err)
	}
	x.Book.Written(ds)
	x.bound(nil)
	return nil
}

// unwritten gives the deliveries back, and breaks the answer off.
func (x *exchange) unwritten(ds []delivery.Delivery, err error) error {
	x.Book.Unwritten(ds)
	x.log.Debug("the answer of a pull could not be written", "deliveries", len(ds), "error", err)
	panic(http.ErrAbortHandler)
}
