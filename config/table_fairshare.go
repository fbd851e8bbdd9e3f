package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// longestKey is how long a tenant key may be once it is written as a token of
// a subject, where every byte but A-Z a-z 0-9 - _ takes three.
const longestKey = 128

var fairShareTable = &record[FairShare]{fields: []field[FairShare]{
	propOr("enabled", func(f *FairShare) *bool { return &f.Enabled }, boolean{}, true,
		"Whether tenants share the queue."),
	prop("weights", func(f *FairShare) *map[string]Weight { return &f.Weights },
		dictionary[Weight]{item: weightShape{}, high: 100_000, verify: usableKey},
		"Shares by tenant key; a tenant of weight 3 gets three turns for each one of weight 1. Absent: what the message says, else 1."),
	prop("key_from", func(f *FairShare) **KeyFrom { return &f.KeyFrom }, pointer[KeyFrom]{keyFromTable},
		"Where the key is found when the publisher gives none."),
}}

var keyFromTable = &record[KeyFrom]{
	fields: []field[KeyFrom]{
		prop("header", func(k *KeyFrom) *string { return &k.Header },
			text{what: "a header's name", pattern: regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$"), rule: "write a name such as X-Tenant", verify: applicationHeader},
			"An application header: Fairlead-Header-X-Tenant on the socket is X-Tenant here."),
		prop("json", func(k *KeyFrom) *string { return &k.JSON },
			text{what: "a path of names", pattern: regexp.MustCompile(`^[^.\s]+(\.[^.\s]+)*$`), rule: "write names with dots between, such as tenant.id", longest: 256},
			"A field of a JSON payload, as names with dots between."),
	},
	finish: func(d *decoder, at string, k *KeyFrom) {
		header, json := join(at, "header"), join(at, "json")
		switch {
		case d.isSet(header) && d.isSet(json):
			d.report(json, "header and json are both there: keep one")
		case !d.isSet(header) && !d.isSet(json) && d.sound(header, json):
			d.report(at, "says nothing: write {header: X-Tenant} or {json: tenant.id}")
		}
	},
	more: object{"minProperties": 1, "maxProperties": 1},
}

// applicationHeader checks that publishers can give a header of this name.
func applicationHeader(name string) string {
	lower := strings.ToLower(name)
	if app, ok := strings.CutPrefix(lower, "fairlead-header-"); ok && app != "" {
		return "is how publishers write it on the socket: leave Fairlead-Header- out"
	}
	if lower == "content-type" || lower == "content-encoding" || strings.HasPrefix(lower, "nats-") || strings.HasPrefix(lower, "fairlead-") {
		return "is no name that an application header can have: write another, such as X-Tenant"
	}
	return ""
}

// fairShareShape is fair_share: true or false, or the mapping.
type fairShareShape struct{ *record[FairShare] }

// start hides the record's own: a queue without the key shares nothing.
func (fairShareShape) start(*FairShare) {}

func (s fairShareShape) read(d *decoder, v value, at string, into *FairShare) {
	switch v.kind {
	case yaml.ScalarNode:
		if v.class() != classBool {
			d.mistyped(v, at, "true, false or a mapping such as {weights: {acme: 3}}")
			return
		}
		boolean{}.read(d, v, at, &into.Enabled)
	default:
		s.record.start(into)
		s.record.read(d, v, at, into)
	}
}

func (s fairShareShape) schema() object {
	return object{"default": false, "anyOf": []object{boolean{}.schema(), s.record.schema()}}
}

func (s fairShareShape) words() (string, string) { return "true, false or a mapping", "" }

// usableKey checks a tenant key. The empty one stands for messages without.
func usableKey(key string) string {
	if !utf8.ValidString(key) {
		return "is not valid UTF-8, as a tenant key must be"
	}
	n := 0
	for i := range len(key) {
		if plainKey.MatchString(key[i : i+1]) {
			n++
		} else {
			n += 3
		}
	}
	if n > longestKey {
		return fmt.Sprintf("a tenant key may have %d bytes, counting 3 for each byte that is not one of A-Z a-z 0-9 _ -; this one has %d", longestKey, n)
	}
	return ""
}
