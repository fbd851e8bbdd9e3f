package config

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	vars := env(map[string]string{"A": "alpha", "EMPTY": "", "D": "$A ${A} $$", "_x9": "under"})
	for _, c := range []struct{ in, want, err string }{
		{in: "plain", want: "plain"},
		{in: "${A}", want: "alpha"},
		{in: "x${A}y${_x9}z", want: "xalphayunderz"},
		{in: "${EMPTY}", want: ""},
		{in: "${D}", want: "$A ${A} $$"}, // what a variable holds is not expanded again
		{in: "${NO:-d}", want: "d"},
		{in: "${NO:-}", want: ""},
		{in: "${EMPTY:-d}", want: "d"},
		{in: "${A:-d}", want: "alpha"},
		{in: "${A:?m}", want: "alpha"},
		{in: "${NO:-a:-b?c}", want: "a:-b?c"},
		{in: "${NO:-$$x}", want: "$x"},
		{in: "$${A}", want: "${A}"},
		{in: "$$$${A}", want: "$${A}"},
		{in: "$$${A}", want: "$alpha"},
		{in: "$A $JS.API {{wildcard(1)}} $", want: "$A $JS.API {{wildcard(1)}} $"},
		{in: "${NO}", err: "the variable NO is not set: set it, or write ${NO:-default}"},
		{in: "${NO:?ask the operator}", err: "the variable NO is not set or empty: ask the operator"},
		{in: "${EMPTY:?}", err: "the variable EMPTY is not set or empty: set it"},
		{in: "${A", err: "`${` without its `}`: close it, or write `$${` for a plain `${`"},
		{in: "${}", err: `"" is not a variable's name: write ${VAR}, or $${ for a plain ${`},
		{in: "${9}", err: `"9" is not a variable's name: write ${VAR}, or $${ for a plain ${`},
		{in: "${A B}", err: `"A B" is not a variable's name: write ${VAR}, or $${ for a plain ${`},
		{in: "${A:+x}", err: "${A:+x} is no form that is known: write ${A}, ${A:-default} or ${A:?message}"},
		{in: "${NO:-${A}}", err: "${NO:…} has a variable inside: variables cannot be nested"},
	} {
		got, err := expand(c.in, vars)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: got %q, %v; want the error %q", c.in, got, err, c.err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestVariablesTakeTheirTypeAfterTheExpansion(t *testing.T) {
	vars := env(map[string]string{"N": "5", "T": "true", "TTL": "15s", "EVIL": "5\nlease: 1s", "MAP": "{a: b}", "EMPTY": "", "NULL": "null", "NUL": "a\x00b", "BAD": "\xff"})
	for _, c := range []struct{ setting, want string }{
		{"concurrency: ${N}", ""},
		{"concurrency: 1${N}", ""},
		{"concurrency: ${NO:-7}", ""},
		{"lease: ${TTL}", ""},
		{`lease: "${TTL}"`, ""},
		{"concurrency: \"${N}\"", "6:16: capsules[0].concurrency: wants a whole number, not text: remove the quotes around 5"},
		{"concurrency: ${T}", "6:16: capsules[0].concurrency: wants a whole number, not true"},
		{"concurrency: ${NO}", "6:16: capsules[0].concurrency: the variable NO is not set: set it, or write ${NO:-default}"},
		{"concurrency: ${EMPTY}", "6:16: capsules[0].concurrency: expands to nothing: write ${VAR:-default}, or quotes around it for an empty text"},
		{"concurrency: ${EVIL}", `6:16: capsules[0].concurrency: wants a whole number, not the text "5\nlease: 1s"`},
		{"concurrency: ${MAP}", `6:16: capsules[0].concurrency: wants a whole number, not the text "{a: b}"`},
		{"${N}: 3", "6:3: capsules[0].\"${N}\": unknown key"}, // keys are never expanded
	} {
		_, _, err := Parse("f.yaml", []byte(at(t, "capsule", c.setting)), vars)
		if got := strings.Join(problemLines(t, err), "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.setting, got, c.want)
		}
	}
	// A text is a text whatever the variable looks like; only YAML's own
	// number in a text's place is a mistake.
	for _, c := range []struct{ value, id, want string }{
		{"${N}", "5", ""},
		{"${T}", "true", ""},
		{"${NULL}", "null", ""},
		{`"${EMPTY}"`, "", ""},
		{"x-${N}", "x-5", ""},
		{"${NUL}", "", "2:7: agent.id: has a control character or is not UTF-8"},
		{"${BAD}", "", "2:7: agent.id: has a control character or is not UTF-8"},
	} {
		got, _, err := Parse("f.yaml", []byte("agent:\n  id: "+c.value+"\n"+minimal), vars)
		lines := strings.Join(problemLines(t, err), "\n")
		if lines != c.want || err == nil && got.Agent.ID != c.id {
			t.Errorf("%s: got %v, %s; want %q, %s", c.value, got, lines, c.id, c.want)
		}
	}
}
