package jsonfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// ErrTooLong says that the field's value has more bytes than were allowed. It was not decoded.
var ErrTooLong = errors.New("jsonfield: the value is too long")

// escape is how many bytes of JSON one byte of a string can take: \u0041.
const escape = 6

// Find returns the string, number or boolean at a path, as text: a string without its quotes and escapes, a number as it is
// written. It is "" when there is no such field, or when that is null, an object, an array or the empty string, and when
// the text is no JSON object as far as it was read. The error is ErrTooLong for a value of more than most bytes.
func Find(text []byte, path string, most int) (string, error) {
	s := scanner{text: text}
	s.space()
	for {
		name, rest, more := strings.Cut(path, ".")
		if !s.enter(name) {
			return "", nil
		}
		if !more {
			return s.scalar(most)
		}
		path = rest
	}
}

// scanner reads a JSON text from at on. After a mistake of the text it is at the end.
type scanner struct {
	text []byte
	at   int
}

// peek is the next byte; 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// take passes over one byte, if it is the next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.at >= len(s.text) {
		return false
	}
	s.at++
	return true
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// enter goes to the value of a member of the object that begins here.
func (s *scanner) enter(name string) bool {
	if !s.take('{') {
		return false
	}
	for {
		s.space()
		member, ok := s.quoted()
		if !ok {
			return false
		}
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		if is(member, name) {
			return true
		}
		if !s.skip() {
			return false
		}
		s.space()
		if !s.take(',') {
			return false
		}
	}
}

// quoted passes over a string and returns what is between its quotes.
func (s *scanner) quoted() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	for begin := s.at; ; {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			s.at = len(s.text)
			return nil, false
		}
		s.at += i + 1
		if !escaped(s.text[begin : s.at-1]) {
			return s.text[begin : s.at-1], true
		}
	}
}

// escaped tells whether what comes behind text is escaped by it.
func escaped(text []byte) bool {
	n := len(text)
	for n > 0 && text[n-1] == '\\' {
		n--
	}
	return (len(text)-n)%2 == 1
}

// skip passes over a value.
func (s *scanner) skip() bool {
	for depth := 0; ; {
		switch c := s.peek(); {
		case c == '"':
			if _, ok := s.quoted(); !ok {
				return false
			}
		case c == '{' || c == '[':
			depth++
			s.at++
		case (c == '}' || c == ']') && depth > 0:
			depth--
			s.at++
		case depth > 0 && s.at < len(s.text):
			s.at++ // between the values inside
			continue
		case len(s.word()) == 0:
			return false
		}
		if depth == 0 {
			return true
		}
	}
}

// word passes over a number, true, false or null, and returns it.
func (s *scanner) word() []byte {
	begin := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'E':
			s.at++
		default:
			return s.text[begin:s.at]
		}
	}
	return s.text[begin:s.at]
}

// scalar returns the value that begins here.
func (s *scanner) scalar(most int) (string, error) {
	if s.peek() == '"' {
		raw, ok := s.quoted()
		if !ok {
			return "", nil
		}
		return unquote(raw, most)
	}
	word := s.word()
	switch {
	case len(word) == 0 || string(word) == "null":
		return "", nil
	case len(word) > most:
		return "", ErrTooLong
	case !json.Valid(word):
		return "", nil
	}
	return string(word), nil
}

// unquote returns the string whose JSON text is between quotes. One that is not valid UTF-8 stays as it is.
func unquote(raw []byte, most int) (string, error) {
	if len(raw) > escape*most {
		return "", ErrTooLong
	}
	text := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 && utf8.Valid(raw) || hasControl(raw) {
		var plain string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &plain); err != nil {
			return "", nil //nolint:nilerr // a text that is no JSON has no field
		}
		text = plain
	}
	if len(text) > most {
		return "", ErrTooLong
	}
	return text, nil
}

// hasControl tells whether there is a byte that no JSON string holds.
func hasControl(raw []byte) bool {
	return bytes.ContainsFunc(raw, func(r rune) bool { return r < ' ' })
}

// is tells whether the name of a member, as its JSON text, is this one.
func is(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	text, err := unquote(raw, len(name))
	return err == nil && text == name
}
