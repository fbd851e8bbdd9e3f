package broker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// scout looks and takes for the hunts of one queue. One goroutine at a time uses it.
type scout struct {
	c      *Client
	queue  string
	layout Layout
	// direct is for a stream without replicas, where whoever answers has the newest state. With replicas, its leader is asked.
	direct bool
	lanes  map[Address]*Lane

	feed    *Feed
	answers chan Answer
}

// askTries is how often a lane is asked that has something to give and does not know it yet.
const askTries = 8

// errNoAnswers says that a lane was asked in vain.
var errNoAnswers = errors.New("broker: a lane gives nothing, and does not say why")

// open makes the feed, the first time.
func (f *scout) open() (err error) {
	if f.feed != nil {
		return nil
	}
	f.answers = make(chan Answer, 1)
	f.feed, err = f.c.NewFeed(func(a Answer) { f.answers <- a }, func(m *Message) { f.c.Return(m, Return{}, func(error) {}) })
	return err
}

// look implements grounds.
func (f *scout) look(ctx context.Context, queries []query) ([]spot, error) {
	spots := make([]spot, len(queries))
	errs := make([]error, len(queries))
	var all sync.WaitGroup
	for i, q := range queries {
		all.Add(1)
		f.first(q, func(subject string, seq uint64, err error) {
			if errs[i] = err; err == nil && seq > 0 {
				spots[i] = f.spot(q.class, subject, seq)
			}
			all.Done()
		})
	}
	all.Wait() // requests end by themselves
	return spots, errors.Join(append(errs, ctx.Err())...)
}

func (f *scout) spot(class, subject string, seq uint64) spot {
	s := spot{seq: seq, class: class}
	if classToken, keyToken, ok := names.Split(strings.TrimPrefix(subject, f.c.names.SubjectPrefix(f.queue))); ok {
		s.address, s.known = f.layout.Address(classToken, keyToken)
	}
	return s
}

// first reports the first message that a query finds; sequence 0 is none.
func (f *scout) first(q query, done func(subject string, seq uint64, err error)) {
	body, _ := json.Marshal(wire.Look{Seq: q.from, Filter: f.c.names.SubjectPrefix(f.queue) + q.class + "." + q.key}) // cannot fail
	stream := f.c.names.Stream(f.queue)
	if !f.direct {
		f.c.wire.Deletes.Do(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, func(m *nats.Msg, err error) {
			if err != nil {
				done("", 0, err)
				return
			}
			var r struct {
				Error   *wire.APIError `json:"error"`
				Message struct {
					Subject string `json:"subject"`
					Seq     uint64 `json:"seq"`
				} `json:"message"`
			}
			switch err := json.Unmarshal(m.Data, &r); {
			case err != nil:
				done("", 0, err)
			case r.Error != nil && r.Error.ErrCode == wire.CodeNoMessage:
				done("", 0, nil)
			case r.Error != nil:
				done("", 0, r.Error)
			default:
				done(r.Message.Subject, r.Message.Seq, nil)
			}
		})
		return
	}
	f.c.wire.Writes.Do(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Data: body}, func(m *nats.Msg, err error) {
		switch {
		case err != nil:
			done("", 0, err)
		case m.Header.Get("Status") == "404":
			done("", 0, nil)
		default:
			// The server's own headers are behind whatever the publisher wrote.
			subjects := m.Header["Nats-Subject"]
			seq := wire.Sequence(m.Header)
			if len(subjects) == 0 || seq == 0 {
				done("", 0, ErrOutcomeUnknown)
				return
			}
			done(subjects[len(subjects)-1], seq, nil)
		}
	})
}

// take implements grounds.
func (f *scout) take(ctx context.Context, s spot) (*Message, uint64, error) {
	lane := f.lane(s.address)
	for try := 0; ; try++ {
		f.feed.Ask(lane, 1, 0)
		a := <-f.answers // there is one always
		if len(a.Messages) > 0 {
			return a.Messages[0], a.Messages[0].Seq - 1, nil
		}
		if a.Err != nil {
			return nil, 0, a.Err
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if a.Held > 0 && try < 1000 {
			continue // a lane that was made again begins with what backs off, or runs here
		}
		// Right after a publish a lane may not know of it yet. What it has passed tells.
		upTo, _, err := f.passed(ctx, s)
		if err != nil {
			return nil, 0, err
		}
		if upTo >= s.seq {
			return nil, upTo, nil
		}
		if try >= askTries {
			return nil, 0, errNoAnswers
		}
		time.Sleep(time.Millisecond << try)
	}
}

// passed implements grounds.
func (f *scout) passed(ctx context.Context, s spot) (uint64, bool, error) {
	info, err := f.c.lane(ctx, f.lane(s.address))
	if err != nil {
		return 0, false, err
	}
	return info.Delivered.Stream, info.NumPending > 0, nil
}

// back implements grounds.
func (f *scout) back(seq uint64) bool {
	r, ok := f.c.attempts.lookup(f.queue, seq)
	return ok && (r.NotBefore == 0 || !time.Now().Before(r.notBefore()))
}

// busy implements grounds.
func (f *scout) busy(seq uint64) (time.Time, bool) {
	if f.c.holds.has(f.queue, seq) {
		return time.Time{}, true
	}
	if r, ok := f.c.attempts.lookup(f.queue, seq); ok && r.NotBefore != 0 && time.Now().Before(r.notBefore()) {
		return r.notBefore(), true
	}
	return time.Time{}, false
}

func (f *scout) lane(a Address) *Lane {
	lane := f.lanes[a]
	if lane == nil {
		lane = f.feed.Lane(f.layout, a)
		f.lanes[a] = lane
	}
	return lane
}

// tidy forgets the lanes of tenants when there were many.
func (f *scout) tidy(most int) {
	if len(f.lanes) <= most {
		return
	}
	for _, lane := range f.lanes { // each by itself
		f.feed.Forget(lane)
	}
	clear(f.lanes)
}

// close ends the feed; an answer that is waited for comes then.
func (f *scout) close() {
	if f.feed != nil {
		f.feed.Close()
	}
}

// strangers lists the classes of levels that the queue does not have, and that hold messages. They are served as the lowest.
func (f *scout) strangers(ctx context.Context) ([]string, error) {
	info, err := f.c.subjects(ctx, f.queue)
	if err != nil {
		return nil, err
	}
	prefix := f.c.names.SubjectPrefix(f.queue)
	found := map[int]bool{}
	for subject := range info.State.Subjects {
		if class, _, ok := names.Split(strings.TrimPrefix(subject, prefix)); ok {
			if level, ok := names.ClassLevel(class); ok && level >= f.layout.Levels {
				found[level] = true
			}
		}
	}
	var classes []string
	for level := f.layout.Levels; level < names.MaxLevels; level++ {
		if found[level] {
			classes = append(classes, names.Class(level))
		}
	}
	return classes, nil
}
