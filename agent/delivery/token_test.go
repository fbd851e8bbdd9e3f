package delivery

import (
	"strings"
	"testing"
)

func TestTokensRoundTrip(t *testing.T) {
	m := newMint()
	for _, id := range []uint64{chunkIDs, chunkIDs + 1, 1 << 32, 1 << 61} {
		if got, ok := m.parse(m.token(id)); !ok || got != id {
			t.Errorf("parse(token(%d)) = %d, %v", id, got, ok)
		}
	}
}

func TestOnlyOurTokensAreKnown(t *testing.T) {
	m, other := newMint(), newMint()
	good := m.token(123456)
	if _, ok := m.parse(good); !ok {
		t.Fatalf("our own token %q is unknown", good)
	}
	for _, bad := range []string{
		"", "-", m.prefix, other.token(123456), strings.ToUpper(good), good + " ", " " + good, good + "\x00",
		m.prefix + "0" + good[len(m.prefix):], m.prefix + "+1", m.prefix + "-1", m.prefix + "zzzzzzzzzzzzz",
		m.prefix + strings.Repeat("z", 5000), m.prefix + "1_0", m.prefix + "é",
	} {
		if id, ok := m.parse(bad); ok {
			t.Errorf("parse(%.40q) = %d, want none", bad, id)
		}
	}
}

func TestTokensNeedNoEscapes(t *testing.T) {
	for _, c := range newMint().token(1 << 50) {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", c) {
			t.Errorf("%q in a token", c)
		}
	}
}

func FuzzTokenHasOneSpelling(f *testing.F) {
	m := newMint()
	f.Add("1a2b")
	f.Add("01")
	f.Fuzz(func(t *testing.T, digits string) {
		token := m.prefix + digits
		if id, ok := m.parse(token); ok && m.token(id) != token {
			t.Errorf("%q and %q are both token %d", token, m.token(id), id)
		}
	})
}
