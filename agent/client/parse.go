package client

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

// parseDelivery decodes text into d, which must be zero. It reads the plain form that agents write, several times faster
// than encoding/json, which costs as much per message as everything else that a client does. Whatever is not quite
// that form (escapes, unknown names, null, spaces) goes to encoding/json, so that both always agree.
//
// previous, or nil, is the delivery before: strings that are the same again are shared with it.
func parseDelivery(text []byte, d, previous *api.Delivery) error {
	s := scanner{text: text}
	if s.delivery(d, previous) {
		return nil
	}
	*d = api.Delivery{}
	return json.Unmarshal(text, d)
}

// scanner reads JSON without spaces or escapes. Its methods return false for anything else.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) delivery(d, previous *api.Delivery) bool {
	if !s.next('{') {
		return false
	}
	if s.next('}') {
		return s.at == len(s.text)
	}
	if previous == nil {
		previous = &noDelivery
	}
	for {
		name, ok := s.str()
		if !ok || !s.next(':') || !s.field(name, d, previous) {
			return false
		}
		if s.next(',') {
			continue
		}
		return s.next('}') && s.at == len(s.text)
	}
}

var noDelivery api.Delivery

// field reads the value of the field called name.
func (s *scanner) field(name []byte, d, previous *api.Delivery) bool {
	switch string(name) {
	case "token":
		return s.text1(&d.Token, "")
	case "queue":
		return s.text1(&d.Queue, previous.Queue)
	case "key":
		return s.text1(&d.Key, previous.Key)
	case "id":
		return s.text1(&d.ID, "")
	case "content_type":
		return s.text1(&d.ContentType, previous.ContentType)
	case "priority":
		return s.small(&d.Priority)
	case "attempt":
		return s.small(&d.Attempt)
	case "seq":
		return s.number(&d.Seq)
	case "fence":
		return s.number(&d.Fence)
	case "enqueued_at":
		return s.time(&d.EnqueuedAt)
	case "deadline":
		return s.time(&d.Deadline)
	case "headers":
		return s.headers(d)
	case "data":
		data := new(string)
		d.Data = data
		return s.text1(data, "")
	}
	return false
}

func (s *scanner) next(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// str reads a string that has no escapes and is valid UTF-8.
func (s *scanner) str() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	start, ascii := s.at, true
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			value := s.text[start:s.at]
			s.at++
			return value, ascii || utf8.Valid(value)
		case c == '\\' || c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// text1 reads a string into out, and takes same instead of a copy if it is equal.
func (s *scanner) text1(out *string, same string) bool {
	value, ok := s.str()
	if !ok {
		return false
	}
	if string(value) == same {
		*out = same
	} else {
		*out = string(value)
	}
	return true
}

// number reads a natural number of at most 18 digits, which cannot overflow.
func (s *scanner) number(out *uint64) bool {
	start, n := s.at, uint64(0)
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		n = n*10 + uint64(s.text[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	if digits == 0 || digits > 18 || digits > 1 && s.text[start] == '0' {
		return false
	}
	*out = n
	return true
}

func (s *scanner) small(out *int) bool {
	var n uint64
	if !s.number(&n) || n > 1<<31-1 {
		return false
	}
	*out = int(n)
	return true
}

func (s *scanner) time(out *time.Time) bool {
	value, ok := s.str()
	return ok && out.UnmarshalText(value) == nil
}

func (s *scanner) headers(d *api.Delivery) bool {
	if !s.next('{') {
		return false
	}
	if d.Headers == nil {
		d.Headers = map[string]string{}
	}
	if s.next('}') {
		return true
	}
	for {
		name, ok := s.str()
		if !ok || !s.next(':') {
			return false
		}
		value, ok := s.str()
		if !ok {
			return false
		}
		d.Headers[string(name)] = string(value)
		if !s.next(',') {
			return s.next('}')
		}
	}
}
