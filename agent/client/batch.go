package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/fairlead/fairlead/agent/api"
)

// BatchLine is what became of one line of a batch.
type BatchLine struct {
	Line   int // in what was read, from 1; blank lines count, but are not sent
	Result api.BatchResult
}

// PublishBatch sends lines, NDJSON with one api.BatchMessage each, and calls each for every line in order, while later
// lines are still being sent: memory stays flat however many there are. It returns when all were answered, or at the
// first error of the agent as a whole, of lines or of each. A line that failed alone is no error: its Result has it.
//
// After ErrConnectionLost, the error says from which line on the outcome is unknown. PublishBatch may return while a
// Read of lines is still under way; what that reads is not sent.
func (c *Client) PublishBatch(ctx context.Context, queue string, lines io.Reader, each func(BatchLine) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed := newFeed(lines)
	res, err := c.do(ctx, request{
		method: http.MethodPost,
		path:   queuePath(queue) + "/batch",
		body:   feed,
		header: http.Header{"Content-Type": {api.TypeNDJSON}, "Accept": {api.TypeNDJSON}},
	})
	if err != nil {
		return feed.explain(err)
	}
	defer res.Body.Close()
	results := bufio.NewScanner(res.Body)
	results.Buffer(make([]byte, 0, 64<<10), maxLine)
	for results.Scan() {
		if len(bytes.TrimSpace(results.Bytes())) == 0 {
			continue
		}
		line, ok := feed.answered()
		if !ok {
			return c.protocolError("more results than lines")
		}
		got := BatchLine{Line: line}
		if err := json.Unmarshal(results.Bytes(), &got.Result); err != nil {
			return feed.explain(c.protocolError("result of line %d: %w", line, err))
		}
		if err := each(got); err != nil {
			return err
		}
	}
	if err := results.Err(); err != nil {
		return feed.explain(c.transportError(ctx, err))
	}
	return feed.finish(c)
}

// feed is the body of a batch: what was read, without blank lines, and which lines wait for a result.
type feed struct {
	in   *bufio.Reader
	line int
	rest []byte // of the line being sent; points into in's buffer
	mid  bool   // the line being sent goes on after rest

	mu      sync.Mutex
	waiting []int // numbers of lines sent and not answered, oldest first
	err     error // why no more is read: io.EOF at the end
	stopped int   // the line at which reading failed
}

func newFeed(lines io.Reader) *feed {
	return &feed{in: bufio.NewReaderSize(lines, 64<<10)}
}

// Read implements io.Reader. It waits for input only while it has nothing to hand out, so that a slow producer's lines
// are sent as they come.
func (f *feed) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(f.rest) == 0 {
			if n > 0 && f.in.Buffered() == 0 {
				return n, nil
			}
			if err := f.next(); err != nil {
				if n > 0 {
					return n, nil
				}
				return 0, err
			}
		}
		k := copy(p[n:], f.rest)
		f.rest = f.rest[k:]
		n += k
	}
	return n, nil
}

// next reads the next piece of input into rest.
func (f *feed) next() error {
	for {
		if err := f.failure(); err != nil {
			return err
		}
		piece, err := f.in.ReadSlice('\n')
		starts := !f.mid
		f.mid = errors.Is(err, bufio.ErrBufferFull)
		if f.mid {
			err = nil
		}
		if starts && len(piece) > 0 {
			f.line++
		}
		f.stop(err)
		blank := starts && !f.mid && len(bytes.TrimSpace(piece)) == 0
		if blank {
			continue
		}
		// A line that could not be read to its end must not be stored as if it had been shorter.
		if err != nil && !errors.Is(err, io.EOF) {
			continue
		}
		if starts {
			f.sent(f.line)
		}
		f.rest = piece
		return nil
	}
}

func (f *feed) stop(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.stopped = err, f.line
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *feed) sent(line int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, line)
}

// answered takes the oldest line that waits for a result.
func (f *feed) answered() (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return 0, false
	}
	line := f.waiting[0]
	f.waiting = f.waiting[1:]
	return line, true
}

// explain adds to err from which line on the outcome is unknown, and puts an error of the input first: it is the cause.
func (f *feed) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && !errors.Is(f.err, io.EOF) {
		return fmt.Errorf("client: batch: line %d: %w", f.stopped, f.err)
	}
	if len(f.waiting) > 0 && errors.Is(err, ErrConnectionLost) {
		return fmt.Errorf("%w; from line %d on it is not known what was stored", err, f.waiting[0])
	}
	return err
}

// finish checks that every line had its answer.
func (f *feed) finish(c *Client) error {
	f.mu.Lock()
	open, err := len(f.waiting), f.err
	f.mu.Unlock()
	if open > 0 || err == nil || !errors.Is(err, io.EOF) {
		return f.explain(c.protocolError("the answer ended early"))
	}
	return nil
}
