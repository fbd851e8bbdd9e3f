package config

import (
	"regexp"
	"strconv"
)

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// join names the value that the keys lead to from a path. A key that would
// not be readable there is quoted.
func join(at string, keys ...string) string {
	for _, key := range keys {
		if !plainKey.MatchString(key) {
			key = strconv.Quote(shorten(key))
		}
		if at != "" {
			at += "."
		}
		at += key
	}
	return at
}

// index names an item of the list at a path, counted from 0.
func index(at string, i int) string {
	return at + "[" + strconv.Itoa(i) + "]"
}

// shorten keeps quoted values readable in a message.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := 0
	for i := range s {
		if i > most {
			break
		}
		cut = i
	}
	return s[:cut] + "…"
}
