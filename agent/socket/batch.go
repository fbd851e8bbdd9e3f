package socket

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// lineOverhead is how many bytes a line may have beyond its payload: metadata, and a payload whose bytes are escaped.
const lineOverhead = 128 << 10

// batch stores the lines of the body, and answers them in order, while it reads on.
//
//	reader (this goroutine) --slot--> queue --> answerer --bytes--> outbox --> writer
//	                          \--> the publisher, in the order of the lines; it sets the slot's outcome
func (x *exchange) batch() error {
	if err := x.may(x.Publishers); err != nil {
		return err
	}
	q, err := x.definition()
	if err != nil {
		return err
	}
	if _, err := x.query(); err != nil {
		return err
	}
	if err := x.rc.EnableFullDuplex(); err != nil {
		return err
	}
	// The first byte before the head: a client that waits for "100 Continue" gets it when its body is read.
	in := bufio.NewReaderSize(pacedBody{x}, 64<<10)
	if _, err := in.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		x.heard = true
		return bodyError(err, x.limits)
	}
	x.head(http.StatusOK, api.TypeNDJSON, -1)
	b := &batch{
		x: x, q: q, looked: time.Now(),
		window: newWindow(x.limits.BatchInFlight, x.limits.BatchBytes),
		slots:  make(chan *slot, x.limits.BatchInFlight),
		out:    newOutbox(x.limits.BatchAnswers),
	}
	var work sync.WaitGroup
	work.Go(b.answer)
	work.Go(b.write)
	err = b.read(in)
	close(b.slots)
	work.Wait()
	if err == nil {
		err = b.out.failure()
	}
	if err != nil {
		x.log.Debug("a batch was broken off", "queue", q.Name, "error", err)
		panic(http.ErrAbortHandler) // the client sees an answer without its end
	}
	return nil
}

// batch is one batch being stored.
type batch struct {
	x      *exchange
	q      *config.Queue // the definition in force at looked, or a little later
	looked time.Time
	window *window
	slots  chan *slot // written by read, read by answer
	out    *outbox
}

// slot is one line's place in the answer.
type slot struct {
	done    chan struct{} // closed when the rest is set
	receipt broker.Receipt
	err     *api.Error
}

// read reads lines and starts their publishes. It returns the error that ended the body too early.
func (b *batch) read(in *bufio.Reader) error {
	limit := b.x.payloadLimit(b.q)
	lines := &lineReader{in: in, most: int(2*limit) + lineOverhead, room: &b.x.bodies}
	defer lines.release()
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			b.x.bodyDone()
			return nil
		}
		if err != nil && !errors.Is(err, errLongLine) && !errors.Is(err, errNoRoom) {
			return bodyError(err, b.x.limits)
		}
		if err == nil && len(line) == 0 {
			continue
		}
		if !b.window.enter(int64(len(line))) {
			return b.out.failure()
		}
		s := &slot{done: make(chan struct{})}
		b.slots <- s
		if err != nil {
			s.err = lineError(err, lines.most)
			b.finish(s, 0)
			continue
		}
		b.publish(s, bytes.Clone(line), limit)
	}
}

func lineError(err error, most int) *api.Error {
	if errors.Is(err, errNoRoom) {
		return &api.Error{Code: api.CodeOverloaded, Message: "too many large requests at the same time: publish this message again"}
	}
	return &api.Error{Code: api.CodePayloadTooLarge, Message: "the line has more than " + strconv.Itoa(most) + " bytes: publish smaller messages, or this one by itself"}
}

// publish stores one line's message, after those of the lines before it.
func (b *batch) publish(s *slot, line []byte, limit int64) {
	size := int64(len(line))
	b.look()
	p, err := parseLine(b.q, line, limit)
	if err != nil {
		s.err = b.x.apiError(err)
		b.finish(s, size)
		return
	}
	b.x.Publisher.PublishAsync(b.q.Name, p, func(receipt broker.Receipt, err error) {
		if err != nil {
			s.err = b.x.apiError(err)
		}
		s.receipt = receipt
		b.finish(s, size)
	})
}

// lookAgain is how long a batch, which can go on for days, works with one definition.
const lookAgain = 100 * time.Millisecond

// look brings the queue's definition up to date.
func (b *batch) look() {
	now := time.Now()
	if now.Sub(b.looked) < lookAgain {
		return
	}
	b.looked = now
	if q, ok := b.x.Publisher.Definition(b.q.Name); ok {
		b.q = &q
	}
}

func (b *batch) finish(s *slot, size int64) {
	close(s.done)
	b.window.leave(size)
}

// answer writes the outcomes in order into the outbox.
func (b *batch) answer() {
	defer b.out.close()
	var line []byte
	for s := range b.slots {
		<-s.done
		line = s.append(line[:0])
		b.out.put(line)
	}
}

func (s *slot) append(dst []byte) []byte {
	if s.err != nil {
		text, err := json.Marshal(api.ErrorBody{Error: s.err})
		if err == nil {
			return append(append(dst, text...), '\n')
		}
	}
	dst = append(dst, '{')
	switch r := s.receipt; {
	case r.Delayed != "": // letters, digits and a dash
		dst = append(append(append(dst, `"delayed":"`...), r.Delayed...), `",`...)
	case r.Seq > 0:
		dst = append(strconv.AppendUint(append(dst, `"seq":`...), r.Seq, 10), ',')
	}
	dst = append(dst, `"duplicate":`...)
	dst = strconv.AppendBool(dst, s.receipt.Duplicate)
	return append(dst, '}', '\n')
}

// write sends what is in the outbox, until it is closed or the client is gone.
func (b *batch) write() {
	for {
		piece := b.out.take()
		if piece == nil {
			return
		}
		_, err := b.x.w.Write(piece)
		if err == nil {
			err = b.x.rc.Flush()
		}
		if err != nil {
			b.out.breakOff(err)
			b.window.breakOff()
			return
		}
	}
}

// pacedBody is a request's body in which every byte has its own time.
type pacedBody struct{ x *exchange }

// Read implements io.Reader.
func (p pacedBody) Read(b []byte) (int, error) {
	p.x.awaitBody()
	return p.x.r.Body.Read(b)
}
