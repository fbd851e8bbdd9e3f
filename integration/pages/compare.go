package pages

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// number finds numbers, also those with units.
var number = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h)?\b`)

// version is what a build calls itself: "devel" in a working copy, and the version of the commit in a clean clone.
var version = regexp.MustCompile(`\bversion (devel|v\d[^,\s]*)`)

// Compare says how what was printed differs from what a page shows; "" when it does not.
func (b Block) Compare(printed string) string {
	shown := b.Text
	if b.Like {
		shown, printed = alike(shown), alike(printed)
	}
	want, got := lines(shown), lines(printed)
	if len(want) > 0 && strings.HasPrefix(want[0], "HTTP/1.1 ") {
		return compareHTTP(want, got)
	}
	return compareLines(want, got)
}

// alike blanks what differs from run to run on a page with numbers that vary.
func alike(text string) string {
	return number.ReplaceAllString(version.ReplaceAllString(text, "version of this build"), "0")
}

func lines(text string) []string {
	text = strings.Trim(strings.ReplaceAll(text, "\r", ""), "\n")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	for i, l := range all {
		all[i] = strings.TrimRight(l, " ")
	}
	return all
}

// compareHTTP compares answers with their heads. The page shows the headers that matter.
func compareHTTP(want, got []string) string {
	head := func(all []string) (map[string]bool, []string) {
		set := map[string]bool{}
		for i, l := range all {
			if l == "" {
				return set, all[i+1:]
			}
			if strings.HasPrefix(l, "{") {
				return set, all[i:]
			}
			set[strings.ToLower(l)] = true
		}
		return set, nil
	}
	wantHead, wantBody := head(want)
	gotHead, gotBody := head(got)
	for line := range wantHead {
		if !gotHead[line] {
			return fmt.Sprintf("the head has no line %q:\n%s", line, strings.Join(got, "\n"))
		}
	}
	return compareLines(wantBody, gotBody)
}

func compareLines(want, got []string) string {
	for i, w := range want {
		if w == "…" {
			rest := want[i+1:]
			for from := i; from <= len(got); from++ {
				if compareLines(rest, got[from:]) == "" {
					return ""
				}
			}
			return fmt.Sprintf("after … nothing fits\n%s\nin\n%s", strings.Join(rest, "\n"), strings.Join(got, "\n"))
		}
		if i == len(got) {
			return fmt.Sprintf("ends before the line %q:\n%s", w, strings.Join(got, "\n"))
		}
		if problem := compareLine(w, got[i]); problem != "" {
			// A JSON value may stand on several lines on the page.
			if whole := compareJSON(strings.Join(want, "\n"), strings.Join(got, "\n")); whole != "" {
				return fmt.Sprintf("line %d: %s", i+1, problem)
			}
			return ""
		}
	}
	if len(got) > len(want) {
		return fmt.Sprintf("goes on where the page ends: %q", got[len(want)])
	}
	return ""
}

func compareLine(want, got string) string {
	if want == got || compareJSON(want, got) == "" {
		return ""
	}
	if json.Valid([]byte(want)) && json.Valid([]byte(got)) {
		return compareJSON(want, got)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(masked(want)), "…", ".*")
	pattern = regexp.MustCompile(` {2,}`).ReplaceAllString(pattern, " +") // columns are as wide as what is in them
	if regexp.MustCompile("^" + pattern + "$").MatchString(masked(got)) {
		return ""
	}
	return fmt.Sprintf("is %q, and the page says %q", got, want)
}

var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`"(token|session|agent|handle|delayed)":"[^"]*"`), `"$1":"…"`},
	{regexp.MustCompile(`"(seq|pid|until)":\d+`), `"$1":0`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[-+]\d\d:\d\d)`), `a time`},
	{regexp.MustCompile(`1[78]\d{14}`), `a sequence`},
}

func masked(line string) string {
	for _, m := range masks {
		line = m.pattern.ReplaceAllString(line, m.by)
	}
	return line
}

func compareJSON(want, got string) string {
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return err.Error()
	}
	if _, ok := w.(map[string]any); !ok {
		return "no JSON object"
	}
	return compareValues("", w, g)
}

// varying are the members whose values differ from run to run.
var varying = regexp.MustCompile(`(^|\.)(token|session|agent|handle|delayed|seq|next|until|pid|at|fence|deadline|started_at|enqueued_at|died_at|published_at|expires_at|version|url|server|bytes|lease_holder|\w*_seconds)$`)

// compareValues finds the first member that the page has and the answer has not, or has otherwise.
func compareValues(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: is %v, and the page shows an object", at, got)
		}
		for name, value := range w {
			if name == "…" {
				continue
			}
			other, ok := g[name]
			if !ok {
				return fmt.Sprintf("%s.%s: there is no such member, and the page shows one", at, name)
			}
			if problem := compareValues(at+"."+name, value, other); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: is %v, and the page shows a list of %d", at, got, len(w))
		}
		for i := range w {
			if problem := compareValues(fmt.Sprintf("%s.%d", at, i), w[i], g[i]); problem != "" {
				return problem
			}
		}
		return ""
	case string:
		if g, ok := got.(string); ok && (varying.MatchString(at) || compareText(w, g)) {
			return ""
		}
	default:
		if fmt.Sprintf("%T", want) == fmt.Sprintf("%T", got) && (want == got || varying.MatchString(at)) {
			return ""
		}
	}
	return fmt.Sprintf("%s: is %v, and the page says %v", at, got, want)
}

func compareText(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(masked(want)), "…", ".*")
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString(masked(got))
}
