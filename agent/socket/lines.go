package socket

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// After these two the next line can be read.
var (
	errLongLine = errors.New("socket: the line is too long")
	errNoRoom   = errors.New("socket: no memory is left for the line")
)

// lineReader reads lines of a bounded length. Memory grows with the line, and counts against the budget of all bodies.
type lineReader struct {
	in   *bufio.Reader
	most int
	room *budget
	held int64  // taken from room
	buf  []byte // of a line that is longer than in's buffer
}

// next returns the next line without surrounding white space; it is valid until the following call. The error is
// errLongLine, errNoRoom, io.EOF after the last line, or the input's.
func (l *lineReader) next() ([]byte, error) {
	l.release()
	var refused error
	for {
		piece, err := l.in.ReadSlice('\n')
		if refused == nil {
			refused = l.take(len(piece), err != nil && !errors.Is(err, io.EOF))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if refused == nil {
				l.buf = append(l.buf, piece...)
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case refused != nil:
			return nil, refused
		case err != nil && len(piece) == 0 && len(l.buf) == 0:
			return nil, io.EOF
		case len(l.buf) > 0:
			l.buf = append(l.buf, piece...)
			piece = l.buf
		}
		return bytes.TrimSpace(piece), nil
	}
}

// take asks for room for n more bytes of the line. Lines that fit into the buffer of in need none.
func (l *lineReader) take(n int, goesOn bool) error {
	if len(l.buf)+n > l.most {
		l.release()
		return errLongLine
	}
	if len(l.buf) == 0 && !goesOn {
		return nil
	}
	if !l.room.take(int64(n)) {
		l.release()
		return errNoRoom
	}
	l.held += int64(n)
	return nil
}

// release gives back what the last line took. A long line's memory is not kept for the next one.
func (l *lineReader) release() {
	if l.held > 0 {
		l.room.give(l.held)
		l.held, l.buf = 0, nil
	}
	l.buf = l.buf[:0]
}
