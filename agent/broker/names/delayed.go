package names

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const (
	// ScheduledToken and DueToken begin what follows a queue's prefix in the subjects of its delayed messages: of those that
	// wait for their time, and of those whose time has come.
	ScheduledToken = "at"
	DueToken       = "due"

	handleTime   = 11 // digits of the time, in base 36
	handleRandom = 12 // digits behind the dash, in base 16
)

// NewHandle names a delayed message: its time in microseconds, rounded up, so that a list needs nothing but names, and a
// random number.
func NewHandle(at time.Time) string {
	digits := strconv.FormatInt(at.Add(time.Microsecond-1).UnixMicro(), 36)
	var b [handleRandom / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.Repeat("0", handleTime-len(digits)) + digits + "-" + hex.EncodeToString(b[:])
}

// ParseHandle returns the time of a handle. ok is false for everything that NewHandle does not make: no other text reaches
// a subject.
func ParseHandle(s string) (at time.Time, ok bool) {
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

// Delayed is what the subject of a delayed message says.
type Delayed struct {
	Due    bool   // its time has come: it is about to be moved
	Class  string // level token
	Token  string // key token
	Handle string
	At     time.Time
}

// Subject is the subject of d, behind the queue's prefix.
func (d Delayed) Subject() string {
	state := ScheduledToken
	if d.Due {
		state = DueToken
	}
	return state + "." + d.Class + "." + d.Token + "." + d.Handle
}

// ParseDelayed reads a subject, given without the queue's prefix. ok is false for subjects that no agent makes.
func ParseDelayed(rest string) (d Delayed, ok bool) {
	tokens := strings.Split(rest, ".")
	if len(tokens) != 4 || tokens[0] != ScheduledToken && tokens[0] != DueToken {
		return d, false
	}
	d = Delayed{Due: tokens[0] == DueToken, Class: tokens[1], Token: tokens[2], Handle: tokens[3]}
	if _, ok = ClassLevel(d.Class); !ok {
		return d, false
	}
	if _, ok = DecodeKey(d.Token); !ok {
		return d, false
	}
	d.At, ok = ParseHandle(d.Handle)
	return d, ok
}
