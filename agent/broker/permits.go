package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/config"
)

// Permits carries out what a [permit.Ledger] asks for: the records that say who may have messages of a key in flight. They
// are in a stream of their own, which nothing consumes:
//
//	fl.slot.<queue>.<key>.<number>.<holder>     a permit in use
//	fl.slot.<queue>.<holder>                    the holder's beat
//
// It is safe for several goroutines.
type Permits struct {
	c      *Client
	queue  string
	holder string
	stream string
	prefix string
	free   string // the subject, without a key, that tells of released permits
	// tell passes on what happened, in order. It must not block.
	tell func(func(l *permit.Ledger, now time.Time))
	subs []*nats.Subscription

	mu     sync.Mutex
	closed bool
}

// NewPermits begins to listen to what other holders of a queue's permits do. tell gets what is to be told to the ledger,
// from any goroutine.
func (c *Client) NewPermits(queue, holder string, tell func(func(l *permit.Ledger, now time.Time))) (*Permits, error) {
	p := &Permits{
		c: c, queue: queue, holder: holder, stream: c.names.Slots(queue), prefix: c.names.SlotPrefix(queue),
		free: c.names.Free(queue), tell: tell,
	}
	beats := c.names.BeatPrefix(queue)
	for subject, f := range map[string]nats.MsgHandler{
		beats + "*": func(m *nats.Msg) {
			holder, seq := m.Subject[len(beats):], wire.Sequence(m.Header)
			p.tell(func(l *permit.Ledger, now time.Time) { l.Heard(holder, seq, now) })
		},
		p.free:        func(*nats.Msg) { p.tell(func(l *permit.Ledger, _ time.Time) { l.FreedAll() }) },
		p.free + ".*": p.freed,
	} {
		sub, err := c.wire.NC.Subscribe(subject, f)
		if err != nil {
			p.unsubscribe()
			return nil, fmt.Errorf("broker: %w", err)
		}
		p.subs = append(p.subs, sub)
	}
	return p, nil
}

// freed takes in that somebody released a permit.
func (p *Permits) freed(m *nats.Msg) {
	if key, ok := names.DecodeKey(m.Subject[len(p.free)+1:]); ok {
		p.tell(func(l *permit.Ledger, _ time.Time) { l.Freed(key) })
	}
}

func (p *Permits) unsubscribe() {
	for _, s := range p.subs {
		_ = s.Unsubscribe()
	}
}

// Do starts an action. What comes of it is told to the ledger, also when it fails.
func (p *Permits) Do(a permit.Action) {
	switch a.Kind {
	case permit.Beat:
		p.beat(a)
	case permit.Claim:
		p.claim(a)
	case permit.Release:
		p.release(a)
	case permit.List:
		p.list(a)
	case permit.Survey:
		p.survey()
	case permit.Confirm:
		p.confirm(a)
	case permit.Reap:
		p.reap(a)
	}
}

func (p *Permits) beat(a permit.Action) {
	p.c.wire.Writes.Do(&nats.Msg{Subject: p.prefix + p.holder}, func(answer *nats.Msg, err error) {
		if err == nil {
			_, err = wire.ParseAck(answer)
		}
		p.complain(err)
		p.tell(func(l *permit.Ledger, now time.Time) { l.Beaten(a.At, err == nil, now) })
	})
}

// subject is that of a record, or with * as its holder, of all holders' records of a number.
func (p *Permits) subject(key string, number int, holder string) string {
	token, _ := names.EncodeKey(key) // it came out of a canonical subject
	return p.prefix + token + "." + strconv.Itoa(number) + "." + holder
}

// claim stores a record where no holder has one.
func (p *Permits) claim(a permit.Action) {
	h := wire.ExpectLast(0)
	h["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{p.subject(a.Key, a.Number, "*")}
	p.c.wire.Writes.Do(&nats.Msg{Subject: p.subject(a.Key, a.Number, p.holder), Header: h}, func(answer *nats.Msg, err error) {
		var ack wire.PubAck
		if err == nil {
			ack, err = wire.ParseAck(answer)
		}
		outcome := permit.Stored
		switch {
		case err == nil:
		case errors.Is(err, ErrConflict):
			outcome = permit.Refused
		case errors.Is(err, ErrOutcomeUnknown):
			outcome = permit.Unknown
		default:
			outcome = permit.Failed
			p.complain(err)
		}
		p.tell(func(l *permit.Ledger, now time.Time) { l.Claimed(a.Key, a.Number, outcome, ack.Sequence, now) })
	})
}

// release deletes a record, and tells those who wait for it.
func (p *Permits) release(a permit.Action) {
	m := wire.DeleteRequest(p.stream, a.Seq)
	if a.Seq == 0 {
		m = p.purge(p.subject(a.Key, a.Number, p.holder), 0)
	}
	p.c.wire.Deletes.Do(m, func(answer *nats.Msg, err error) {
		gone := err == nil && (p.c.readDeleted(answer) != FinishUnknown || strings.Contains(string(answer.Data), `"success":true`))
		if gone {
			token, _ := names.EncodeKey(a.Key)
			_ = p.c.wire.NC.Publish(p.free+"."+token, nil)
		}
		p.tell(func(l *permit.Ledger, now time.Time) { l.Released(a.Key, a.Number, gone, now) })
	})
}

// purge deletes by subject, up to a sequence (0: all). The stream has no consumers that could lose anything by that.
func (p *Permits) purge(filter string, upTo uint64) *nats.Msg {
	body, _ := json.Marshal(struct { // strings and numbers
		Filter string `json:"filter"`
		Seq    uint64 `json:"seq,omitempty"` // up to, but not including
	}{filter, upTo})
	return &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + p.stream, Data: body}
}

// slotsInfo is the part of JetStream's answer that names records.
type slotsInfo struct {
	Error *wire.APIError `json:"error"`
	Total int            `json:"total"`
	Limit int            `json:"limit"`
	State struct {
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// info asks the stream's leader for the records under a filter; "" is none of them.
func (p *Permits) info(filter string, done func(*slotsInfo, error)) {
	body := []byte(nil)
	if filter != "" {
		body, _ = json.Marshal(map[string]string{"subjects_filter": filter}) // strings
	}
	p.c.wire.Deletes.Do(&nats.Msg{Subject: "$JS.API.STREAM.INFO." + p.stream, Data: body}, func(answer *nats.Msg, err error) {
		var info slotsInfo
		if err == nil {
			err = json.Unmarshal(answer.Data, &info)
		}
		if err == nil && info.Error != nil {
			err = fmt.Errorf("broker: stream %s: %w", p.stream, info.Error)
		}
		p.complain(err)
		done(&info, err)
	})
}

func (p *Permits) list(a permit.Action) {
	token, _ := names.EncodeKey(a.Key)
	p.info(p.prefix+token+".*.*", func(info *slotsInfo, err error) {
		var taken []permit.Taken
		for subject := range info.State.Subjects { // in any order
			if number, holder, ok := p.record(subject); ok {
				taken = append(taken, permit.Taken{Number: number, Holder: holder})
			}
		}
		p.tell(func(l *permit.Ledger, now time.Time) { l.Listed(a.Key, taken, err == nil, now) })
	})
}

// record reads the subject of a record.
func (p *Permits) record(subject string) (number int, holder string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(subject, p.prefix), ".")
	if len(parts) != 3 {
		return 0, "", false
	}
	number, err := strconv.Atoi(parts[1])
	return number, parts[2], err == nil
}

// survey looks for everybody with a beat or a record.
func (p *Permits) survey() {
	p.info(p.prefix+">", func(info *slotsInfo, err error) {
		seen, highest := map[string]bool{}, -1
		for subject := range info.State.Subjects { // in any order
			if number, holder, ok := p.record(subject); ok {
				seen[holder] = true
				highest = max(highest, number)
			} else if rest := strings.TrimPrefix(subject, p.prefix); !strings.Contains(rest, ".") {
				seen[rest] = true
			}
		}
		if info.Limit > 0 && info.Total > info.Limit {
			highest = math.MaxInt // there are more than were shown
		}
		holders := make([]string, 0, len(seen))
		for h := range seen { // in any order
			holders = append(holders, h)
		}
		p.tell(func(l *permit.Ledger, now time.Time) { l.Surveyed(holders, highest, err == nil, now) })
	})
}

// confirm reads the stream's last sequence, and then a holder's beat.
func (p *Permits) confirm(a permit.Action) {
	tell := func(seq, last uint64, ok bool) {
		p.tell(func(l *permit.Ledger, now time.Time) { l.Confirmed(a.Holder, seq, last, ok, now) })
	}
	p.info("", func(info *slotsInfo, err error) {
		if err != nil {
			tell(0, 0, false)
			return
		}
		body, _ := json.Marshal(map[string]string{"last_by_subj": p.prefix + a.Holder}) // strings
		p.c.wire.Deletes.Do(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + p.stream, Data: body}, func(answer *nats.Msg, err error) {
			var r struct {
				Error   *wire.APIError `json:"error"`
				Message struct {
					Seq uint64 `json:"seq"`
				} `json:"message"`
			}
			if err == nil {
				err = json.Unmarshal(answer.Data, &r)
			}
			none := r.Error != nil && r.Error.ErrCode == 10037
			tell(r.Message.Seq, info.State.LastSeq, err == nil && (r.Error == nil || none))
		})
	})
}

// reap deletes all that a holder has left.
func (p *Permits) reap(a permit.Action) {
	p.c.wire.Deletes.Do(p.purge(p.prefix+"*.*."+a.Holder, a.Seq+1), func(answer *nats.Msg, err error) {
		var r struct {
			Purged uint64 `json:"purged"`
		}
		if err != nil || json.Unmarshal(answer.Data, &r) != nil {
			return // it will be met again
		}
		p.c.wire.Deletes.Do(p.purge(p.prefix+a.Holder, a.Seq+1), func(*nats.Msg, error) {})
		if r.Purged > 0 {
			p.c.log.Info("an agent is gone; what it had in flight of capped keys can be taken again", "queue", p.queue, "holder", a.Holder, "permits", r.Purged)
			_ = p.c.wire.NC.Publish(p.free, nil)
		}
	})
}

// complain says that the records cannot be used.
func (p *Permits) complain(err error) {
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) || !p.c.Connected() {
		return
	}
	p.c.seldom.Warn("the records of what is in flight of each key cannot be used; nothing more of the queue is taken until they can", "queue", p.queue, "stream", p.stream, "error", err)
}

// Close gives back whatever this holder still has, and waits until that is done or ctx ends. It can be called twice.
func (p *Permits) Close(ctx context.Context) {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return
	}
	p.unsubscribe()
	done := make(chan struct{})
	p.c.wire.Deletes.Do(p.purge(p.prefix+"*.*."+p.holder, 0), func(*nats.Msg, error) {
		p.c.wire.Deletes.Do(p.purge(p.prefix+p.holder, 0), func(*nats.Msg, error) {
			_ = p.c.wire.NC.Publish(p.free, nil)
			close(done)
		})
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// ensureSlots makes the stream that holds the records of a queue with a cap, or brings it to what the definition says.
func (c *Client) ensureSlots(ctx context.Context, q config.Queue) error {
	name := c.names.Slots(q.Name)
	stream, err := c.wire.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		want := c.slotsConfig(q)
		// Sequences never start again: by them, holders that are gone are told from those that are not.
		want.FirstSeq = uint64(time.Now().UnixMicro())
		stream, err = c.wire.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = c.wire.Stream(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("broker: stream %s: %w", name, wire.Translate(err))
	}
	have := stream.CachedInfo().Config
	if want := max(q.Storage.Replicas, 1); have.Replicas != want {
		have.Replicas = want
		if _, err := c.wire.UpdateStream(ctx, have); err != nil {
			return fmt.Errorf("broker: stream %s cannot be changed to what the file says: %w", name, wire.Translate(err))
		}
	}
	return nil
}

func (c *Client) slotsConfig(q config.Queue) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:              c.names.Slots(q.Name),
		Description:       "Fairlead: who has messages of capped keys of " + q.Name + " in flight",
		Subjects:          []string{c.names.SlotPrefix(q.Name) + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          max(q.Storage.Replicas, 1),
		MaxMsgsPerSubject: 1,
		Duplicates:        100 * time.Millisecond, // claims are told apart by their subjects
		RePublish:         &jetstream.RePublish{Source: c.names.SlotPrefix(q.Name) + "*", Destination: c.names.BeatPrefix(q.Name) + "{{wildcard(1)}}", HeadersOnly: true},
	}
	if q.Storage.Type == "memory" {
		cfg.Storage = jetstream.MemoryStorage
	}
	return cfg
}
