package group

import (
	"regexp"
	"strings"
	"testing"
)

// Any id gives a valid key of three tokens, and no two ids one key.
func TestHostileIDsMakeValidKeys(t *testing.T) {
	valid := regexp.MustCompile(`^hb\.[-/_=a-zA-Z0-9]+\.[-/_=a-zA-Z0-9]+$`) // of a NATS KV key
	ids := []string{
		"", "_", "=5F", "a", "a.b", "a*", ">", "a.>", " ", "\t", "\r\n", "\x00", "$JS.API", "é", "e\u0301", "\u202e", "\u200b", "😀",
		strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 5000), strings.Repeat(".", 43), "\xff", "\xfe", "=h", "h",
	}
	seen := map[string]string{}
	for _, agent := range ids {
		for _, capsule := range []string{"", "primary"} {
			key := heartbeatKey(agent, capsule)
			if !valid.MatchString(key) || len(key) > 300 {
				t.Errorf("%q, %q: key %q", agent, capsule, key)
			}
			if other, ok := seen[key]; ok {
				t.Errorf("%q and %q share the key %q", agent, other, key)
			}
			seen[key] = agent
			if !strings.HasPrefix(key, agentPrefix(agent)) {
				t.Errorf("%q does not begin with its agent's prefix", key)
			}
		}
	}
	if q, ok := queueOf(definitionKey("_")); !ok || q != "_" {
		t.Errorf("queueOf = %q, %t", q, ok)
	}
}
