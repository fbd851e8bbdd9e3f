package socket

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/payload"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// The bounds of a message's metadata.
const (
	maxEncodedKey  = 128     // bytes of a key as it appears in a subject
	maxID          = 256     // bytes
	maxValue       = 1 << 10 // bytes of a content type, traceparent or tracestate
	maxHeaders     = 64      // application headers
	maxHeaderBytes = 8 << 10 // names and values of all application headers together
	maxWeight      = 1_000_000
)

// decodeKey reads a percent-encoded key.
func decodeKey(text string) (string, error) {
	key, err := url.PathUnescape(text)
	if err != nil {
		return "", invalidKey("the key is not percent-encoded: write a %% as %%25")
	}
	return key, checkKey(key)
}

// checkKey tells whether a key can be stored: valid UTF-8, and at most 128 bytes long when every byte but letters, digits,
// - and _ is written as three.
func checkKey(key string) error {
	if !utf8.ValidString(key) {
		return invalidKey("the key is not valid UTF-8")
	}
	if n := encodedKeyLength(key); n > maxEncodedKey {
		return invalidKey("the key has %d bytes when it is encoded (letters, digits, - and _ count one, others three), and %d is the most: "+
			"use a shorter one, or a hash of it", n, maxEncodedKey)
	}
	return nil
}

func invalidKey(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalidKey, Message: fmt.Sprintf(format, args...)}
}

// encodedKeyLength returns how long a key is in a subject. (The key _ alone is escaped there too; that is short enough.)
func encodedKeyLength(key string) int {
	n := 0
	for i := range len(key) {
		switch c := key[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			n++
		default:
			n += 3
		}
	}
	return n
}

// parseWeight reads a decimal number above 0, up to 1000, with at most three decimals.
func parseWeight(text string) (fairshare.Weight, error) {
	bad := &api.Error{Code: api.CodeInvalidWeight, Message: fmt.Sprintf("weight %.32q: use a number above 0, at most 1000, with at most three decimals, such as 2.5", text)}
	whole, fraction, dotted := strings.Cut(text, ".")
	fraction = strings.TrimRight(fraction, "0")
	if !digits(whole) || dotted && text[len(text)-1] == '.' || fraction != "" && !digits(fraction) || len(whole) > 6 || len(fraction) > 3 {
		return 0, bad
	}
	n, err := strconv.Atoi(whole + (fraction + "000")[:3])
	if err != nil || n <= 0 || n > maxWeight {
		return 0, bad
	}
	return fairshare.Weight(n), nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// parseLevel reads a level's number or name.
func parseLevel(q *config.Queue, text string) (int, error) {
	if digits(strings.TrimPrefix(text, "-")) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= q.Levels {
			return 0, &api.Error{Code: api.CodePriority, Message: fmt.Sprintf(
				"priority %.32q: queue %s has the levels 0 (the highest) to %d", text, q.Name, q.Levels-1)}
		}
		return n, nil
	}
	if n, ok := q.LevelByName(text); ok {
		return n, nil
	}
	if len(q.LevelNames) == 0 {
		return 0, badRequest("priority %.32q: the levels of queue %s have no names; use a number from 0 (the highest) to %d", text, q.Name, q.Levels-1)
	}
	return 0, badRequest("priority %.32q: the levels of queue %s are %s", text, q.Name, strings.Join(q.LevelNames, ", "))
}

// parseCompress reads how a message is to be compressed.
func parseCompress(text string) (bool, error) {
	if text != payload.Encoding {
		return false, badRequest("compression %.32q: only %s is known", text, payload.Encoding)
	}
	return true, nil
}

func invalidHeader(format string, args ...any) *api.Error {
	return &api.Error{Code: api.CodeInvalidHeader, Message: fmt.Sprintf(format, args...)}
}

// checkText tells whether a value can be a header of the stored message.
func checkText(name, value string, most int) error {
	switch {
	case len(value) > most:
		return invalidHeader("%s has %d bytes, and %d is the most", name, len(value), most)
	case !utf8.ValidString(value):
		return invalidHeader("%s is not valid UTF-8", name)
	case strings.ContainsFunc(value, unicode.IsControl):
		return invalidHeader("%s has a control character: leave it out", name)
	}
	return nil
}

// headerSet collects application headers within their bounds.
type headerSet struct {
	headers map[string]string
	bytes   int
}

// add adds an application header; name is in lower case.
func (s *headerSet) add(name, value string) error {
	if !token(name) {
		return invalidHeader("header name %.64q: use letters, digits and -", name)
	}
	if reserved(name) {
		return invalidHeader("header name %.64q is reserved: use another one", name)
	}
	if err := checkText("header "+cut(name, 64), value, maxHeaderBytes); err != nil {
		return err
	}
	s.bytes += len(name) + len(value)
	if s.bytes > maxHeaderBytes || len(s.headers) >= maxHeaders {
		return invalidHeader("at most %d headers with %d bytes together can go with a message: put the rest into the payload", maxHeaders, maxHeaderBytes)
	}
	s.set(name, value)
	return nil
}

func (s *headerSet) set(name, value string) {
	if s.headers == nil {
		s.headers = make(map[string]string)
	}
	s.headers[name] = value
}

// reserved tells whether a name belongs to the system or is set otherwise.
func reserved(name string) bool {
	switch name {
	case "content-type", "content-encoding", "traceparent", "tracestate":
		return true
	}
	return strings.HasPrefix(name, "nats-") || strings.HasPrefix(name, "fairlead-")
}

// token tells whether s can be the name of a header (RFC 9110) in lower case.
func token(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
