package controls

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/fairshare"
)

func TestNamesOfRecords(t *testing.T) {
	for name, thing := range map[string]Thing{
		"pause.orders":                  {QueuePause, "orders", ""},
		"pause.orders._":                {KeyPause, "orders", ""},
		"pause.orders.=5F":              {KeyPause, "orders", "_"},
		"pause.orders.acme":             {KeyPause, "orders", "acme"},
		"weight.orders.a=2Eb":           {KeyWeight, "orders", "a.b"},
		"weight.orders._":               {KeyWeight, "orders", ""},
		"weight.orders.=2A":             {KeyWeight, "orders", "*"},
		"weight.orders.=3E":             {KeyWeight, "orders", ">"},
		"pause.orders.=0D=0A":           {KeyPause, "orders", "\r\n"},
		"pause.o-1_X.=F0=9F=98=80":      {KeyPause, "o-1_X", "😀"},
		"pause.pause.weight":            {KeyPause, "pause", "weight"},
		"weight.weight." + longest("a"): {KeyWeight, "weight", longest("a")},
	} {
		if got, err := thing.record(); got != name || err != nil {
			t.Errorf("%+v: %q %v, want %q", thing, got, err, name)
		}
		if got, ok := parseRecord(name); got != thing || !ok {
			t.Errorf("%q: %+v %v, want %+v", name, got, ok, thing)
		}
	}
	for _, name := range []string{
		"", "pause", "pause.", "pause..a", "pause.q.", "weight.q", "weight.", "weight.q.", "weight.q.a.b", "pause.q.a.b", "pause.q.=5f", "pause.q.*", "hb.a.b",
	} {
		if got, ok := parseRecord(name); ok {
			t.Errorf("%q: %+v, want none", name, got)
		}
	}
	for _, key := range []string{"\xff", longest("a") + "a", strings.Repeat(".", 43), strings.Repeat("x", 5000)} {
		if name, err := (Thing{KeyPause, "q", key}).record(); !errors.Is(err, ErrInvalid) {
			t.Errorf("a key of %d bytes: %q %v", len(key), name, err)
		}
	}
}

func longest(s string) string { return strings.Repeat(s, 128) }

// Whatever a key holds, its record has one name, which has three tokens of harmless bytes, and is its own.
func TestNamesAreInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Thing{Kind(rapid.IntRange(1, 2).Draw(t, "kind")), "q", rapid.String().Draw(t, "key")}
		name, err := a.record()
		if err != nil {
			return
		}
		if strings.Count(name, ".") != 2 || strings.ContainsAny(name, "*> \r\n\x00") {
			t.Fatalf("%q", name)
		}
		if back, ok := parseRecord(name); back != a || !ok {
			t.Fatalf("%+v became %q and then %+v", a, name, back)
		}
	})
}

func TestRecordsOfWeights(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for weight, text := range map[fairshare.Weight]string{1: "0.001", 999: "0.999", 1000: "1", 2500: "2.5", 1_000_000: "1000"} {
		c := Control{Thing{KeyWeight, "q", "a"}, weight, "agent-1", at}
		got, err := c.encode()
		if want := `{"weight":` + text + `,"agent":"agent-1","at":"2026-11-29T12:00:00Z"}`; string(got) != want || err != nil {
			t.Errorf("%d: %s %v, want %s", weight, got, err, want)
		}
		if back, err := decode(c.Thing, got); back != c || err != nil {
			t.Errorf("%s: %+v %v", got, back, err)
		}
	}
	for _, weight := range []fairshare.Weight{0, -1, 1_000_001} {
		if got, err := (Control{Thing: Thing{KeyWeight, "q", "a"}, Weight: weight}).encode(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %s %v", weight, got, err)
		}
	}
	for _, text := range []string{"", "{", "{}", "[]", `{"weight":0}`, `{"weight":-1}`, `{"weight":0.0004}`, `{"weight":1000.1}`, `{"weight":1e99}`, `{"weight":"x"}`} {
		if got, err := decode(Thing{KeyWeight, "q", "a"}, []byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	// Of a pause only the record counts.
	for _, text := range []string{"", "{", "{}", `{"agent":7}`} {
		if got, err := decode(Thing{QueuePause, "q", ""}, []byte(text)); err != nil || got.Agent != "" {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}
