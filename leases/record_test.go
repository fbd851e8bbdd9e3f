package leases

import (
	"strings"
	"testing"
	"time"
)

func TestDecode(t *testing.T) {
	r := Record{"me", "boot/2", MinRevision + 5, 17, 15 * time.Second, 4, "old", "new"}
	if got, err := Decode(r.Encode()); err != nil || got != r {
		t.Errorf("Decode(Encode) = %+v, %v", got, err)
	}
	if got, err := Decode(nil); err != nil || !got.Absent() {
		t.Errorf("Decode(nothing) = %+v, %v", got, err)
	}
	for _, bad := range []string{"{", "{}", "null", "17", `"x"`, `{"nonce":"a/1","ttl":"-1s"}`, `{"nonce":"a/1","ttl":"9999h"}`, `{"holder":"a","ttl":"10s"}`} {
		got, err := Decode([]byte(bad))
		if err == nil || got.Absent() || got.Released() {
			t.Errorf("Decode(%s) = %+v, %v: it must be waited for", bad, got, err)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := (Config{ID: "a", Boot: "b"}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Boot: "a/b", TTL: time.Millisecond, Stay: -1}.Validate()
	if err == nil {
		t.Fatal("a bad configuration is valid")
	}
	for _, field := range []string{"ID:", "Boot:", "TTL:", "Stay:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
