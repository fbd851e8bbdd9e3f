package socket

import "sync"

// window bounds how many lines of a batch are under way, and how many bytes. One line always has room.
type window struct {
	mu     sync.Mutex
	moved  sync.Cond
	lines  int // room left
	bytes  int64
	busy   int
	broken bool
}

func newWindow(lines int, bytes int64) *window {
	w := &window{lines: lines, bytes: bytes}
	w.moved.L = &w.mu
	return w
}

// enter waits for room. It is false when the batch is over before.
func (w *window) enter(size int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.broken && w.busy > 0 && (w.lines <= 0 || w.bytes < size) {
		w.moved.Wait()
	}
	if w.broken {
		return false
	}
	w.lines--
	w.bytes -= size
	w.busy++
	return true
}

// leave makes room.
func (w *window) leave(size int64) {
	w.mu.Lock()
	w.lines++
	w.bytes += size
	w.busy--
	w.mu.Unlock()
	w.moved.Signal()
}

// breakOff ends all waiting.
func (w *window) breakOff() {
	w.mu.Lock()
	w.broken = true
	w.mu.Unlock()
	w.moved.Broadcast()
}

// outbox holds what a client has not read yet of an answer. The answer may run ahead of its reader by its bound, so that a
// client that first writes a whole batch and then reads is not stuck with a small one.
type outbox struct {
	mu     sync.Mutex
	moved  sync.Cond
	most   int
	data   []byte
	spare  []byte
	closed bool
	err    error
}

func newOutbox(most int) *outbox {
	o := &outbox{most: most}
	o.moved.L = &o.mu
	return o
}

// put waits for room and adds a copy of p. After breakOff it does nothing.
func (o *outbox) put(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && len(o.data) > 0 && len(o.data)+len(p) > o.most {
		o.moved.Wait()
	}
	if o.err == nil {
		o.data = append(o.data, p...)
		o.moved.Broadcast()
	}
}

// take waits for data and returns it; it is valid until the next take. Nil: the answer is over.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.data) == 0 && !o.closed && o.err == nil {
		o.moved.Wait()
	}
	if len(o.data) == 0 || o.err != nil {
		return nil
	}
	taken := o.data
	o.data, o.spare = o.spare[:0], taken
	o.moved.Broadcast()
	return taken
}

// close tells that nothing more will be put.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.moved.Broadcast()
}

// breakOff ends the answer: nobody reads it.
func (o *outbox) breakOff(err error) {
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	o.moved.Broadcast()
}

func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
