package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAddressesAreShownWithoutSecrets(t *testing.T) {
	n := NATS{URLs: []string{"nats://app:secret@nats:4222", "tls://secret@nats:4222", "nats://nats:4222", "nats://%secret"}}
	got := n.Redacted()
	want := []string{"nats://xxxxx@nats:4222", "tls://xxxxx@nats:4222", "nats://nats:4222", "an address that cannot be read"}
	if !slices.Equal(got, want) || strings.Contains(strings.Join(got, ""), "secret") {
		t.Errorf("%q, want %q", got, want)
	}
}
