package worker

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// shared returns w for use by several commands. A file is handed to them as it is, which needs no copying.
func shared(w io.Writer, lock *sync.Mutex) io.Writer {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &locked{to: w, lock: lock}
}

// locked is a writer for several goroutines.
type locked struct {
	to   io.Writer
	lock *sync.Mutex
}

func (l *locked) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.to.Write(p)
}

// maxKept bounds what is kept of one line, in bytes.
const maxKept = 4 << 10

// lastLine passes on what it gets, whole lines at a time so that those of several commands do not mix, and keeps the last
// one that was not blank.
type lastLine struct {
	to io.Writer

	mu   sync.Mutex
	line []byte // the unfinished one
	kept []byte
}

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	written := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			end = len(p)
		}
		l.line = append(l.line, p[:end]...)
		whole := p[end-1] == '\n'
		p = p[end:]
		if whole || len(l.line) >= maxKept {
			l.passLocked()
		}
	}
	return written, nil
}

// passLocked writes the line. A stderr that cannot be written is no reason to fail the command.
func (l *lastLine) passLocked() {
	if text := bytes.TrimSpace(l.line); len(text) > 0 {
		l.kept = append(l.kept[:0], text...)
	}
	_, _ = l.to.Write(l.line)
	l.line = l.line[:0]
}

func (l *lastLine) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		l.passLocked()
	}
}

func (l *lastLine) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}
