package jsonfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct{ text, path, want string }{
		{`{"tenant":"acme"}`, "tenant", "acme"},
		{` { "a" : 1 , "tenant" : { "id" : "acme" } } `, "tenant.id", "acme"},
		{`{"a":{"b":{"c":{"d":"deep"}}}}`, "a.b.c.d", "deep"},
		{`{"tenant":17}`, "tenant", "17"},
		{`{"tenant":-1.50e+3}`, "tenant", "-1.50e+3"},
		{`{"tenant":true,"x":false}`, "tenant", "true"},
		{`{"tenant":true,"x":false}`, "x", "false"},
		{`{"tenant":null}`, "tenant", ""},
		{`{"tenant":""}`, "tenant", ""},
		{`{"tenant":{}}`, "tenant", ""},
		{`{"tenant":["a"]}`, "tenant", ""},
		{`{"tenant":["a"]}`, "tenant.0", ""},
		{`{"tenant":"acme"}`, "tenant.id", ""},
		{`{"other":"acme"}`, "tenant", ""},
		{`{"other":{"tenant":"no"},"list":[{"tenant":"no"}],"tenant":"yes"}`, "tenant", "yes"},
		{`{"text":"\"tenant\":\"no\"","tenant":"yes"}`, "tenant", "yes"},
		{`{"text":"} ] \\\" {","tenant":"yes"}`, "tenant", "yes"},
		{`{"text":"\\","tenant":"yes"}`, "tenant", "yes"},
		{`{"a":"x","a":"y"}`, "a", "x"},
		{`{"tenant":"caf\u00e9 \ud83d\ude00\n"}`, "tenant", "café 😀\n"},
		{`{"ten\u0061nt":"acme"}`, "tenant", "acme"},
		{`{"Tenant":"acme"}`, "tenant", ""},
		{`{"é":{"ü":"ok"}}`, "é.ü", "ok"},
		{`{"":"empty name"}`, "x", ""},
		{`{"n":[[[[]]],{}],"tenant":"yes"}`, "tenant", "yes"},
		// What comes behind the field is not looked at.
		{`{"tenant":"acme", and so on`, "tenant", "acme"},
		// No JSON in front of it.
		{``, "tenant", ""},
		{`tenant=acme`, "tenant", ""},
		{`"tenant"`, "tenant", ""},
		{`["tenant","acme"]`, "tenant", ""},
		{`{tenant:"acme"}`, "tenant", ""},
		{`{"a" "tenant":"acme"}`, "tenant", ""},
		{`{"a":1 "tenant":"acme"}`, "tenant", ""},
		{`{"a":,"tenant":"acme"}`, "tenant", ""},
		{`{"tenant":tru}`, "tenant", ""},
		{`{"tenant":01}`, "tenant", ""},
		{`{"tenant":"acme`, "tenant", ""},
		{`{"tenant":"a\x"}`, "tenant", ""},
		{"{\"tenant\":\"a\nb\"}", "tenant", ""},
		{`{"tenant":`, "tenant", ""},
		{"\ufeff" + `{"tenant":"acme"}`, "tenant", ""},
		// Whoever stores it has to look whether it can be.
		{"{\"tenant\":\"\xff\"}", "tenant", "\xff"},
	} {
		if got, err := Find([]byte(tt.text), tt.path, 128); got != tt.want || err != nil {
			t.Errorf("%s in %s: %q, %v, want %q", tt.path, tt.text, got, err, tt.want)
		}
	}
}

func TestFindBoundsTheValue(t *testing.T) {
	long := strings.Repeat("a", 128)
	for text, want := range map[string]error{
		`"` + long + `"`:                           nil,
		`"` + long + `a"`:                          ErrTooLong,
		`"` + strings.Repeat(`\u0061`, 128) + `"`:  nil,
		`"` + strings.Repeat(`\u0061`, 129) + `"`:  ErrTooLong,
		`"` + strings.Repeat("a", 1<<20) + `\n"`:   ErrTooLong,
		strings.Repeat("1", 128):                   nil,
		strings.Repeat("1", 129):                   ErrTooLong,
		`"` + strings.Repeat(`\u00e9`, 65) + `"`:   ErrTooLong,
		`{"b":"` + strings.Repeat("a", 1000) + `"`: nil,
	} {
		if _, err := Find([]byte(`{"a":`+text+`}`), "a", 128); !errors.Is(err, want) {
			t.Errorf("%.40s… with %d bytes: %v, want %v", text, len(text), err, want)
		}
	}
}

// A large payload is looked through once, without memory, and not beyond the field.
func TestFindIsCheap(t *testing.T) {
	deep := strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)
	text := []byte(`{"deep":` + deep + `,"quotes":"` + strings.Repeat(`\"`, 1<<20) + `","tenant":{"id":"acme"}}`)
	if n := testing.AllocsPerRun(5, func() {
		if got, err := Find(text, "tenant.id", 128); got != "acme" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
	// Backslashes before a quote are counted once each, or this would take for ever.
	slashes := []byte(`{"s":"` + strings.Repeat(strings.Repeat(`\`, 1<<10)+`\"`, 1<<11) + `","tenant":"acme"}`)
	if got, err := Find(slashes, "tenant", 128); got != "acme" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzFind compares with the standard decoder wherever the text is JSON.
func FuzzFind(f *testing.F) {
	for _, text := range []string{`{"a":{"b":"x"}}`, `{"a":1,"b":[{"a":2}],"a":3}`, `{"\u0061":"\ud800"}`, `[{"a":1}]`, `{"a":tru`, `"`, `{"b":"\\\"","a":-0.1e9}`} {
		f.Add([]byte(text), "a")
		f.Add([]byte(text), "a.b")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		got, err := Find(text, path, 128)
		if len(got) > 128 || err != nil && got != "" {
			t.Fatalf("%q, %v", got, err)
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			return
		}
		want := oracle(text, strings.Split(path, "."))
		if len(want) > 128 {
			if err == nil {
				t.Fatalf("%q, want too long", got)
			}
		} else if got != want || err != nil {
			t.Fatalf("%q in %q: %q, %v, want %q", path, text, got, err, want)
		}
	})
}

// oracle decodes everything, token by token.
func oracle(text []byte, path []string) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for depth := 0; ; depth++ {
		t, _ := d.Token()
		if depth == len(path) {
			switch v := t.(type) {
			case string, bool, json.Number:
				return fmt.Sprint(v)
			}
			return ""
		}
		if t != json.Delim('{') {
			return ""
		}
		for {
			name, _ := d.Token()
			if name == json.Delim('}') {
				return ""
			}
			if name == path[depth] {
				break
			}
			var passed json.RawMessage
			if d.Decode(&passed) != nil {
				return ""
			}
		}
	}
}

func BenchmarkFind(b *testing.B) {
	text := []byte(`{"lines":[` + strings.Repeat(`{"sku":"A-1","n":2},`, 50_000) + `{}],"tenant":{"id":"acme"}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := Find(text, "tenant.id", 128); got != "acme" {
			b.Fatal(got)
		}
	}
}
