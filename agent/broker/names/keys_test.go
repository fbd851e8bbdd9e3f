package names

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestKeyTokens(t *testing.T) {
	for _, tt := range []struct{ key, token string }{
		{"", "_"},
		{"_", "=5F"},
		{"__", "__"},
		{"acme", "acme"},
		{"A-b_9", "A-b_9"},
		{"=", "=3D"},
		{"=5F", "=3D5F"},
		{".", "=2E"},
		{"..", "=2E=2E"},
		{"a.b", "a=2Eb"},
		{"*", "=2A"},
		{">", "=3E"},
		{"a.>", "a=2E=3E"},
		{" ", "=20"},
		{"\t", "=09"},
		{"a\r\nb", "a=0D=0Ab"},
		{"\x00", "=00"},
		{"$JS.API", "=24JS=2EAPI"},
		{"_INBOX", "_INBOX"},
		{"é", "=C3=A9"},
		{"e\u0301", "e=CC=81"}, // the same to the eye: another tenant
		{"\u200b", "=E2=80=8B"},
		{"שלום", "=D7=A9=D7=9C=D7=95=D7=9D"},
		{"🙂", "=F0=9F=99=82"},
		{strings.Repeat("k", 128), strings.Repeat("k", 128)},
	} {
		token, err := EncodeKey(tt.key)
		if err != nil || token != tt.token {
			t.Errorf("EncodeKey(%q) = %q, %v, want %q", tt.key, token, err, tt.token)
		}
		if key, ok := DecodeKey(tt.token); !ok || key != tt.key {
			t.Errorf("DecodeKey(%q) = %q, %t, want %q", tt.token, key, ok, tt.key)
		}
	}
}

func TestKeyRefused(t *testing.T) {
	for _, key := range []string{
		strings.Repeat("k", 129), strings.Repeat("k", 300), strings.Repeat("k", 5000), strings.Repeat(".", 43), "\xff", "a\xc3",
	} {
		if token, err := EncodeKey(key); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("EncodeKey(%.20q, %d bytes) = %.20q, %v, want ErrInvalidKey", key, len(key), token, err)
		}
	}
	for _, token := range []string{
		"", "=", "=5", "=5f", "=ZZ", "=zz", "a=4", "=41", "a=5F", "=5F=5F", "=FF", "=C3", "*", ">", "a.b", "a b", "é", "~", strings.Repeat("k", 129),
	} {
		if key, ok := DecodeKey(token); ok {
			t.Errorf("DecodeKey(%q) = %q: no key has this token", token, key)
		}
	}
}

// Every key either is refused or comes back, and its token can do nothing in a subject; every token that decodes is the
// one that its key has.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"", "_", "=5F", "a.b", "*", ">", "\r\n", "🙂", "=C3=A9", "=41", strings.Repeat("é", 22)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := EncodeKey(s); err == nil {
			if strings.ContainsAny(token, ".*> \t\r\n\x00") || token == "" || len(token) > MaxEncodedKey {
				t.Fatalf("EncodeKey(%q) = %q", s, token)
			}
			if key, ok := DecodeKey(token); !ok || key != s {
				t.Fatalf("%q came back as %q, %t", s, key, ok)
			}
		} else if utf8.ValidString(s) && 3*len(s) <= MaxEncodedKey {
			t.Fatalf("EncodeKey(%q): %v", s, err)
		}
		if key, ok := DecodeKey(s); ok {
			if token, err := EncodeKey(key); err != nil || token != s {
				t.Fatalf("two tokens for the key %q: %q and %q, %v", key, s, token, err)
			}
		}
	})
}
