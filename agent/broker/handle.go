package broker

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const (
	// scheduledToken and dueToken begin what follows a queue's prefix in the subjects of its delayed messages: of those that
	// wait for their time, and of those whose time has come.
	scheduledToken = "at"
	dueToken       = "due"

	handleTime   = 11 // digits of the time, in base 36
	handleRandom = 12 // digits behind the dash, in base 16
)

// newHandle names a delayed message: its time in microseconds, rounded up, so that a list needs nothing but names, and a
// random number.
func newHandle(at time.Time) string {
	digits := strconv.FormatInt(at.Add(time.Microsecond-1).UnixMicro(), 36)
	var b [handleRandom / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.Repeat("0", handleTime-len(digits)) + digits + "-" + hex.EncodeToString(b[:])
}

// parseHandle returns the time of a handle. ok is false for everything that newHandle does not make: no other text reaches
// a subject.
func parseHandle(s string) (at time.Time, ok bool) {
	if len(s) != handleTime+1+handleRandom || s[handleTime] != '-' {
		return time.Time{}, false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'g' <= c && c <= 'z' && i < handleTime, i == handleTime:
		default:
			return time.Time{}, false
		}
	}
	micros, err := strconv.ParseInt(s[:handleTime], 36, 64)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMicro(micros).UTC(), true
}

// delayed is what the subject of a delayed message says.
type delayed struct {
	due    bool   // its time has come: it is about to be moved
	class  string // level token
	token  string // key token
	handle string
	at     time.Time
}

// subject is the subject of d, behind the queue's prefix.
func (d delayed) subject() string {
	state := scheduledToken
	if d.due {
		state = dueToken
	}
	return state + "." + d.class + "." + d.token + "." + d.handle
}

// parseDelayed reads a subject, given without the queue's prefix. ok is false for subjects that no agent makes.
func parseDelayed(rest string) (d delayed, ok bool) {
	tokens := strings.Split(rest, ".")
	if len(tokens) != 4 || tokens[0] != scheduledToken && tokens[0] != dueToken {
		return d, false
	}
	d = delayed{due: tokens[0] == dueToken, class: tokens[1], token: tokens[2], handle: tokens[3]}
	if _, ok = classLevel(d.class); !ok {
		return d, false
	}
	if _, ok = DecodeKey(d.token); !ok {
		return d, false
	}
	d.at, ok = parseHandle(d.handle)
	return d, ok
}
