package socket

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/delivery"
)

// The encoder is written by hand: a pull's answer is what this agent spends its time on. Its output is what encoding/json
// writes for an api.Delivery without HTML escapes.

// encoder appends deliveries in one of the two formats.
type encoder struct {
	frames   bool
	deadline time.Time // of the text below: all deliveries of an answer usually share one
	text     []byte
}

// append appends one delivery with its payload.
func (e *encoder) append(dst []byte, d *delivery.Delivery, data []byte) []byte {
	if e.frames {
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
		dst = append(e.metadata(dst, d), '}')
		return closeFrame(append(dst, data...), start, len(data))
	}
	dst = e.metadata(dst, d)
	if text, ok := appendValidString(append(dst, `,"data":`...), data); ok {
		return append(text, '}', '\n')
	}
	dst = append(dst, `,"data_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"', '}', '\n')
}

// closeFrame writes the two lengths of the frame that began at start and ends with a payload of this size.
func closeFrame(dst []byte, start, payload int) []byte {
	rest := len(dst) - start - 4
	binary.BigEndian.PutUint32(dst[start:], uint32(rest))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(rest-4-payload))
	return dst
}

// appendFirst appends what comes before the deliveries: a JSON object.
func (e *encoder) appendFirst(dst, object []byte) []byte {
	if !e.frames {
		return append(append(dst, object...), '\n')
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	return closeFrame(append(dst, object...), start, 0)
}

// metadata appends the JSON object of a delivery, without its payload and its closing brace.
func (e *encoder) metadata(dst []byte, d *delivery.Delivery) []byte {
	m := d.Message
	dst = append(dst, `{"token":"`...)
	dst = append(dst, d.Token...) // tokens need no escapes
	dst = append(dst, `","queue":`...)
	dst = appendString(dst, m.Queue)
	dst = append(dst, `,"priority":`...)
	dst = strconv.AppendInt(dst, int64(m.Level), 10)
	dst = append(dst, `,"key":`...)
	dst = appendString(dst, m.Key)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, m.Seq, 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(m.Attempt), 10)
	if m.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = appendString(dst, m.ID)
	}
	dst = append(dst, `,"enqueued_at":"`...)
	dst = m.EnqueuedAt.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","deadline":"`...)
	if e.text == nil || !e.deadline.Equal(d.Deadline) {
		e.deadline, e.text = d.Deadline, d.Deadline.UTC().AppendFormat(e.text[:0], time.RFC3339Nano)
	}
	dst = append(dst, e.text...)
	dst = append(dst, `","fence":`...)
	dst = strconv.AppendUint(dst, m.Fence(), 10)
	if m.ContentType != "" {
		dst = append(dst, `,"content_type":`...)
		dst = appendString(dst, m.ContentType)
	}
	dst = append(dst, `,"headers":`...)
	return appendHeaders(dst, m.Headers)
}

// appendHeaders appends headers as an object, by name.
func appendHeaders(dst []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return append(dst, '{', '}')
	}
	var few [8]string
	names := few[:0]
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = appendString(dst, name)
		dst = append(dst, ':')
		dst = appendString(dst, headers[name])
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves inside of a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString appends s as a JSON string. What is not valid UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst, _ = appendJSON(dst, s, true)
	return dst
}

// appendValidString appends s as a JSON string. It is false, and dst of no use, when s is not valid UTF-8.
func appendValidString[T string | []byte](dst []byte, s T) ([]byte, bool) {
	return appendJSON(dst, s, false)
}

func appendJSON[T string | []byte](dst []byte, s T, mend bool) ([]byte, bool) {
	dst = append(dst, '"')
	begin := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[begin:i]...)
			dst = appendEscape(dst, c)
			i++
			begin = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && size == 1:
			if !mend {
				return dst, false
			}
			dst = append(append(dst, s[begin:i]...), `\ufffd`...)
			begin = i + size
		case r == '\u2028' || r == '\u2029': // JavaScript ends a line at them
			dst = append(append(dst, s[begin:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			begin = i + size
		}
		i += size
	}
	dst = append(dst, s[begin:]...)
	return append(dst, '"'), true
}

// appendEscape appends an ASCII byte that cannot stand for itself.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
