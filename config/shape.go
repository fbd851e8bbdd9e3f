package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// A shape is one kind of value: how it is read from YAML (or stored JSON),
// how it is written as JSON, and how the JSON Schema describes it. The tables
// are made of shapes, so that the parser and the schema cannot disagree.
//
// A shape with a method container() treats an empty value as an absent one.
type shape[V any] interface {
	// read sets *into, or reports what is wrong with v. It may set *into to a
	// wrong value so that later checks have something to refer to.
	read(d *decoder, v value, at string, into *V)
	appendJSON(b []byte, v V) []byte
	schema() object
	// words say what the value is and which ones are right, for the reference.
	words() (kind, bounds string)
}

// object is a JSON object of the schema.
type object = map[string]any

// class is what a plain scalar is by the core schema of YAML 1.2. The old
// spellings of 1.1 (yes, on, 1_000, 0777) are text there.
type class int

const (
	classText class = iota
	classNull
	classBool
	classInt
	classFloat
)

var (
	intForm   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatForm = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

func (v value) class() class {
	if v.kind != yaml.ScalarNode || v.quoted {
		return classText
	}
	switch v.text {
	case "", "~", "null", "Null", "NULL":
		return classNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return classBool
	}
	switch {
	case intForm.MatchString(v.text):
		return classInt
	case floatForm.MatchString(v.text):
		return classFloat
	}
	return classText
}

// describe says what a value is, for "wants …, not …".
func (v value) describe() string {
	switch v.kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch v.class() {
	case classNull:
		return "an empty value"
	case classBool:
		return v.text
	case classInt, classFloat:
		return "the number " + shorten(v.text)
	}
	return "the text " + strconv.Quote(shorten(v.text))
}

func (d *decoder) mistyped(v value, at, wanted string) {
	d.report(at, "wants %s, not %s", wanted, v.describe())
}

// text is a string.
type text struct {
	what    string         // what it is, for messages: "a path"
	pattern *regexp.Regexp // nil: anything
	rule    string         // the pattern in words
	longest int            // bytes; 0: 4096
	verify  func(s string) (problem string)
}

func (t text) read(d *decoder, v value, at string, into *string) {
	if v.kind != yaml.ScalarNode {
		d.mistyped(v, at, t.what)
		return
	}
	// What a variable holds cannot be put in quotes by the one who sets it.
	if v.class() != classText && !v.expanded {
		d.report(at, "wants %s, not %s: put it in quotes", t.what, v.describe())
		return
	}
	*into = v.text
	longest := t.longest
	if longest == 0 {
		longest = 4096
	}
	switch {
	case !utf8.ValidString(v.text) || strings.ContainsFunc(v.text, unicode.IsControl):
		d.report(at, "has a control character or is not UTF-8")
	case len(v.text) > longest:
		d.report(at, "has %d bytes, and may have %d", len(v.text), longest)
	case t.pattern != nil && !t.pattern.MatchString(v.text):
		d.report(at, "%q is not %s: %s", shorten(v.text), t.what, t.rule)
	case t.verify != nil:
		if problem := t.verify(v.text); problem != "" {
			d.report(at, "%s", problem)
		}
	}
}

func (text) blank(s string) bool { return s == "" }

func (t text) appendJSON(b []byte, s string) []byte { return appendString(b, s) }

func (t text) schema() object {
	o := object{"type": "string"}
	if t.longest > 0 {
		o["maxLength"] = t.longest
	}
	if t.pattern == nil {
		return o
	}
	o["pattern"] = t.pattern.String()
	return orVariable(o)
}

func (t text) words() (string, string) {
	kind := strings.TrimPrefix(strings.TrimPrefix(t.what, "an "), "a ")
	switch {
	case t.rule != "":
		return kind, strings.TrimPrefix(strings.TrimPrefix(t.rule, "write "), "it ")
	case t.longest > 0:
		return kind, "up to " + strconv.Itoa(t.longest) + " bytes"
	}
	return kind, ""
}

// choice is one of a few words.
type choice[S ~string] struct{ known []S }

func (c choice[S]) read(d *decoder, v value, at string, into *S) {
	if v.kind != yaml.ScalarNode || !slices.Contains(c.known, S(v.text)) {
		d.mistyped(v, at, "one of "+c.list())
		return
	}
	*into = S(v.text)
}

func (c choice[S]) list() string {
	words := make([]string, len(c.known))
	for i, w := range c.known {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

func (c choice[S]) appendJSON(b []byte, s S) []byte { return appendString(b, string(s)) }

func (c choice[S]) schema() object { return orVariable(object{"enum": c.known}) }

func (c choice[S]) words() (string, string) { return "word", c.list() }

// boolean is true or false.
type boolean struct{}

func (boolean) read(d *decoder, v value, at string, into *bool) {
	if v.class() != classBool {
		d.mistyped(v, at, "true or false")
		return
	}
	*into = strings.EqualFold(v.text, "true")
}

func (boolean) appendJSON(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

func (boolean) schema() object { return orVariable(object{"type": "boolean"}) }

func (boolean) words() (string, string) { return "true or false", "" }

// integer is a whole number within bounds, both included.
type integer[I ~int | ~int64 | ~uint32] struct{ low, high int64 }

func (i integer[I]) read(d *decoder, v value, at string, into *I) {
	n, ok := d.wholeNumber(v, at)
	if !ok {
		return
	}
	if n < i.low || n > i.high {
		d.report(at, "is %s, and must be from %d to %d", shorten(v.text), i.low, i.high)
		return
	}
	*into = I(n)
}

// wholeNumber reads a decimal integer. One too big for 64 bits is clamped,
// which is outside of all bounds here.
func (d *decoder) wholeNumber(v value, at string) (int64, bool) {
	switch {
	case v.quoted && intForm.MatchString(v.text):
		d.report(at, "wants a whole number, not text: remove the quotes around %s", shorten(v.text))
		return 0, false
	case v.class() != classInt:
		d.mistyped(v, at, "a whole number")
		return 0, false
	}
	digits := strings.TrimLeft(v.text, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		d.report(at, "wants a whole number without leading zeros, not %s", shorten(v.text))
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		n = math.MaxInt64
		if v.text[0] == '-' {
			n = math.MinInt64
		}
	}
	return n, true
}

func (i integer[I]) appendJSON(b []byte, v I) []byte { return strconv.AppendInt(b, int64(v), 10) }

func (i integer[I]) schema() object {
	return orVariable(object{"type": "integer", "minimum": i.low, "maximum": i.high})
}

func (i integer[I]) words() (string, string) {
	return "whole number", strconv.FormatInt(i.low, 10) + " to " + strconv.FormatInt(i.high, 10)
}

// fraction is a number within bounds, both included.
type fraction struct{ low, high float64 }

func (f fraction) read(d *decoder, v value, at string, into *float64) {
	if c := v.class(); c != classInt && c != classFloat {
		d.mistyped(v, at, "a number")
		return
	}
	// Infinity and NaN of YAML (.inf, .nan) are no numbers to ParseFloat.
	n, err := strconv.ParseFloat(v.text, 64)
	if err != nil || !(n >= f.low && n <= f.high) {
		d.report(at, "is %s, and must be from %v to %v", shorten(v.text), f.low, f.high)
		return
	}
	*into = n
}

func (f fraction) appendJSON(b []byte, v float64) []byte {
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func (f fraction) schema() object {
	return orVariable(object{"type": "number", "minimum": f.low, "maximum": f.high})
}

func (f fraction) words() (string, string) {
	return "number", fmt.Sprintf("%v to %v", f.low, f.high)
}

func appendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("config: a string did not marshal: " + err.Error()) // strings always do
	}
	return append(b, quoted...)
}
