package payload

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Most is what a payload may expand to where nothing else bounds it, in bytes: as much as an application may publish.
const Most = 64 << 20

// Encoding names the one way to compress, as a Content-Encoding does.
const Encoding = "gzip"

// Speed beats ratio: the agent compresses while a publisher waits, and the server's disk compresses again.
const level = gzip.BestSpeed

var writers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// Compress returns data compressed, in memory of its own; false when that would save less than overhead bytes.
func Compress(data []byte, overhead int) ([]byte, bool) {
	most := len(data) - overhead
	if most <= 0 {
		return nil, false
	}
	out := &bounded{most: most, buf: make([]byte, 0, min(most, 512+len(data)/4))}
	w, _ := writers.Get().(*gzip.Writer)
	defer func() {
		w.Reset(io.Discard) // a pooled writer must not keep the payload alive
		writers.Put(w)
	}()
	w.Reset(out)
	if _, err := w.Write(data); err != nil {
		return nil, false
	}
	if err := w.Close(); err != nil {
		return nil, false
	}
	return out.buf, true
}

var errFull = errors.New("payload: does not get smaller")

// bounded collects what is written, and gives up when it becomes too much.
type bounded struct {
	buf  []byte
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if len(b.buf)+len(p) >= b.most {
		return 0, errFull
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// source is a reader of compressed payloads, to be used again.
type source struct {
	in bytes.Reader
	gz gzip.Reader
}

var sources = sync.Pool{New: func() any { return new(source) }}

// Expand returns what data was before it was compressed, in memory of its own. limit is how many bytes that may have; a
// limit of 0 or less, and one above [Most], is Most. Errors wrap [ErrDamaged] or [ErrTooLarge].
func Expand(data []byte, limit int64) ([]byte, error) {
	if limit <= 0 || limit > Most {
		limit = Most
	}
	s, _ := sources.Get().(*source)
	defer func() {
		s.in.Reset(nil)
		sources.Put(s)
	}()
	s.in.Reset(data)
	if err := s.gz.Reset(&s.in); err != nil {
		return nil, damaged(err)
	}
	out := make([]byte, 0, firstSize(data, limit))
	for {
		n, err := s.gz.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case int64(len(out)) > limit:
			return nil, fmt.Errorf("%w (more than %d bytes)", ErrTooLarge, limit)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, damaged(err)
		case len(out) == cap(out):
			out = grow(out, limit)
		}
	}
}

func damaged(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // nothing at all is not whole either
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// firstSize is how much room to make at first: what the payload's end says that it needs, as far as that is believable
// before anything was read. One byte more, because only reading on shows the end.
func firstSize(data []byte, limit int64) int64 {
	const tail, few, ratio = 4, 4 << 10, 16
	if len(data) < tail {
		return few
	}
	said := int64(binary.LittleEndian.Uint32(data[len(data)-tail:]))
	return min(said, limit, few+ratio*int64(len(data))) + 1
}

// grow makes room for as much again, but for no more than a byte over the limit, which shows that it is passed.
func grow(out []byte, limit int64) []byte {
	size := min(2*int64(cap(out))+512, limit+1)
	grown := make([]byte, len(out), size)
	copy(grown, out)
	return grown
}
