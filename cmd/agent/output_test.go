package main

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本": "plain ü 日本", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, `say "hi" \n`: `say "hi" \n`, "\u202eabc": `\u202eabc`,
		"\xff": `\xff`, "a\u200bb": `a\u200bb`, "tab\t": `tab\t`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for in, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abc…", "éééé": "éééé", "ééééé": "ééé…"} {
		if got := shorten(in, 4); got != want {
			t.Errorf("shorten(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSecondsAndSizes(t *testing.T) {
	for in, want := range map[float64]string{-1: "0s", 0: "0s", 1.54: "1.5s", 59.6: "1m0s", 3725: "1h2m", 200000: "2d7h"} {
		if got := seconds(in); got != want {
			t.Errorf("seconds(%v) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 1 << 50: "1024.0 TiB"} {
		if got := sizeOf(in); got != want {
			t.Errorf("sizeOf(%d) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(in); got != want {
			t.Errorf("grouped(%d) = %q, want %q", in, got, want)
		}
	}
}

func TestSelfName(t *testing.T) {
	for _, row := range []struct{ executable, typed, want string }{
		{"/tmp/go-build123/b001/exe/agent", "/tmp/go-build123/b001/exe/agent", "go run ./cmd/agent"},
		{"/root/.cache/go-build/db/db01a32638aa6663f3de0bd1835c74dccb5bb7d9fab8fa684165e424ab8a5ca4-d/agent", "x", "go run ./cmd/agent"},
		{"/usr/bin/fairlead", "fairlead", "fairlead"},
		{"/home/me/bin/fairlead", "./bin/fairlead", "./bin/fairlead"},
		{"/my bin/fairlead", "/my bin/fairlead", "'/my bin/fairlead'"},
		{"/usr/bin/fairlead", "", "/usr/bin/fairlead"},
	} {
		if got := selfNameOf(row.executable, row.typed); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
	if got := shellQuote("it's"); got != `'it'\''s'` {
		t.Errorf("got %s", got)
	}
}
