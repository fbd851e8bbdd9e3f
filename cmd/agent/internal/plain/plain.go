// Package plain makes text of keys, times and sizes that is safe to print on a terminal: whatever others wrote into a key or an
// error, it cannot move the cursor, change colours, or turn the direction of what follows.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text returns s with everything that is not to be printed escaped as in Go: newlines, escape sequences, text that
// runs from right to left by an invisible mark.
func Text(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Key shows the absent key as what no key can be: keys are shown as they are, and a dash is a key as well. It is not made
// printable yet.
func Key(key string) string {
	if key == "" {
		return "(unkeyed)"
	}
	return key
}

// Seconds shows a time span in the largest two units.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
