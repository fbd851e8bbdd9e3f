package config

import (
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	day = 24 * time.Hour
)

// duration is a time with units within bounds, both included.
type duration struct{ low, high time.Duration }

const durationForm = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$`

var (
	durationPattern = regexp.MustCompile(durationForm)
	bareNumber      = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	daysForm        = regexp.MustCompile(`^([0-9]{1,5})d$`)
)

func (t duration) read(d *decoder, v value, at string, into *time.Duration) {
	if v.kind != yaml.ScalarNode {
		d.mistyped(v, at, "a time such as 30s")
		return
	}
	s := v.text
	if strings.HasPrefix(s, "-") {
		d.report(at, "is %s, and a time cannot be negative: write %s or more", shorten(s), formatDuration(t.low))
		return
	}
	if bareNumber.MatchString(s) {
		d.report(at, "a time needs a unit: write %ss for seconds", shorten(s))
		return
	}
	if m := daysForm.FindStringSubmatch(s); m != nil {
		n, err := strconv.Atoi(m[1])
		if err == nil {
			d.report(at, "a time has no unit for days: write %dh", n*24)
			return
		}
	}
	if !durationPattern.MatchString(s) {
		d.mistyped(v, at, "a time such as 250ms, 30s, 2m or 720h")
		return
	}
	n, err := time.ParseDuration(s)
	if err != nil { // the form is right, so it is too big
		n = math.MaxInt64
	}
	if n < t.low || n > t.high {
		d.report(at, "is %s, and must be from %s to %s", shorten(s), formatDuration(t.low), formatDuration(t.high))
		return
	}
	*into = n
}

func (t duration) appendJSON(b []byte, v time.Duration) []byte {
	return appendString(b, formatDuration(v))
}

func (t duration) schema() object {
	return orVariable(object{"type": "string", "pattern": durationForm})
}

func (t duration) words() (string, string) {
	return "time", formatDuration(t.low) + " to " + formatDuration(t.high)
}

// formatDuration writes 2m and 720h, where String says 2m0s and 720h0m0s.
func formatDuration(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// size is a number of bytes, plain or with a unit.
type size struct{ high int64 }

const sizeForm = `^[0-9]+(KiB|MiB|GiB)$`

var sizePattern = regexp.MustCompile(`^([0-9]+)(KiB|MiB|GiB)?$`)

func (z size) read(d *decoder, v value, at string, into *int64) {
	if v.kind != yaml.ScalarNode {
		d.mistyped(v, at, "a size such as 1MiB")
		return
	}
	if v.class() == classInt && strings.HasPrefix(v.text, "-") {
		d.report(at, "is %s, and a size cannot be negative", shorten(v.text))
		return
	}
	m := sizePattern.FindStringSubmatch(v.text)
	if m == nil {
		d.mistyped(v, at, "a size in bytes, or with one of the units KiB, MiB, GiB such as 64MiB")
		return
	}
	unit := map[string]int64{"": 1, "KiB": kib, "MiB": mib, "GiB": gib}[m[2]]
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > z.high/unit {
		d.report(at, "is %s, and must be at most %s", shorten(v.text), formatSize(z.high))
		return
	}
	*into = n * unit
}

func (z size) appendJSON(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

func (z size) schema() object {
	return object{"anyOf": []object{
		{"type": "integer", "minimum": 0, "maximum": z.high},
		{"type": "string", "pattern": sizeForm},
		{"$ref": variableRef},
	}}
}

func (z size) words() (string, string) { return "size", "up to " + formatSize(z.high) }

func formatSize(n int64) string {
	switch {
	case n >= gib && n%gib == 0:
		return fmt.Sprintf("%dGiB", n/gib)
	case n >= mib && n%mib == 0:
		return fmt.Sprintf("%dMiB", n/mib)
	case n >= kib && n%kib == 0:
		return fmt.Sprintf("%dKiB", n/kib)
	}
	return strconv.FormatInt(n, 10)
}

const (
	weightUnit = 1000      // of a weight of 1
	maxWeight  = 1_000_000 // 1000
)

// weightShape is a decimal number above 0 and up to 1000 with at most three
// decimals. It is read digit by digit: a float would round.
type weightShape struct{}

var weightForm = regexp.MustCompile(`^([0-9]{0,10})(\.([0-9]{0,10}))?$`)

func (weightShape) read(d *decoder, v value, at string, into *Weight) {
	if c := v.class(); c != classInt && c != classFloat {
		d.mistyped(v, at, "a weight such as 3 or 0.5")
		return
	}
	const rule = "must be above 0 and at most 1000, with at most three decimals"
	m := weightForm.FindStringSubmatch(v.text)
	if m == nil {
		d.report(at, "is %s, and %s", shorten(v.text), rule)
		return
	}
	decimals := strings.TrimRight(m[3], "0")
	if len(decimals) > 3 {
		d.report(at, "is %s, and %s", v.text, rule)
		return
	}
	n, err := strconv.ParseInt(m[1]+(decimals + "000")[:3], 10, 64)
	if err != nil || n < 1 || n > maxWeight {
		d.report(at, "is %s, and %s", v.text, rule)
		return
	}
	*into = Weight(n)
}

func (weightShape) appendJSON(b []byte, w Weight) []byte { return append(b, w.String()...) }

func (weightShape) schema() object {
	return orVariable(object{"type": "number", "exclusiveMinimum": 0, "maximum": 1000, "multipleOf": 0.001})
}

func (weightShape) words() (string, string) {
	return "number", "above 0, at most 1000, three decimals"
}

// String writes the weight as files do: 3, 0.5.
func (w Weight) String() string {
	s := fmt.Sprintf("%d.%03d", w/weightUnit, w%weightUnit)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// fileMode is permission bits in octal. The leading zero is required, quoted
// or not: 660 could be meant either way.
type fileMode struct{}

const modeForm = `^0[0-7]{3}$`

var modePattern = regexp.MustCompile(modeForm)

func (fileMode) read(d *decoder, v value, at string, into *fs.FileMode) {
	if v.kind != yaml.ScalarNode || !modePattern.MatchString(v.text) {
		d.mistyped(v, at, `permission bits in octal such as "0660"`)
		return
	}
	n, err := strconv.ParseUint(v.text, 8, 32)
	if err != nil || n&0o600 != 0o600 {
		d.report(at, `is %s, and must let the owner read and write, such as "0660"`, v.text)
		return
	}
	*into = fs.FileMode(n)
}

func (fileMode) appendJSON(b []byte, m fs.FileMode) []byte {
	return fmt.Appendf(b, `"%04o"`, uint32(m))
}

func (fileMode) schema() object {
	return orVariable(object{"type": "string", "pattern": modeForm})
}

func (fileMode) words() (string, string) {
	return "permission bits", "four octal digits that let the owner read and write"
}
