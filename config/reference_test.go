package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The page in the documentation is what the tables say today.
func TestReferencePageIsFresh(t *testing.T) {
	const file = "../docs/configuration-reference.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, ReferencePage()) {
		t.Errorf("%s is stale: run go generate ./config, or make docs", file)
	}
}

// Every setting has all that the reference shows of it, and the file that sets all of them has no other.
func TestReferenceIsComplete(t *testing.T) {
	byPath := map[string]Setting{}
	for _, s := range Reference() {
		byPath[s.Path] = s
		if s.Type == "" || !strings.HasSuffix(s.Meaning, ".") && !strings.HasSuffix(s.Meaning, "}") || strings.Contains(s.Meaning, "Default:") {
			t.Errorf("%s: type %q, meaning %q", s.Path, s.Type, s.Meaning)
		}
	}
	for path, want := range map[string]Setting{
		"nats":                                 {Type: "mapping", Required: true, Section: true},
		"agent.drain_timeout":                  {Type: "time", Default: "30s", Range: "0s to 24h", Live: true},
		"listen.mode":                          {Type: "permission bits", Default: `"0660"`, Range: "four octal digits that let the owner read and write"},
		"nats.embedded.sync_interval":          {Type: "time", Default: "2m", Range: "1ms to 1h, or always"},
		"queues[].compress.min_bytes":          {Type: "size", Default: "1KiB", Range: "up to 64MiB", Live: true},
		"queues[].retry.backoff":               {Type: "list of times such as 5s", Default: "[5s, 10s, 20s, 40s]", Range: "1 to 100 items, each 0s to 720h", Live: true},
		"queues[].default_priority":            {Type: "level's number or name", Default: "the middle level, (levels-1)/2", Range: "one that the queue has", Live: true},
		"queues[].sources[].stream":            {Type: "stream's name", Range: "without spaces, dots, wildcards and slashes", Required: true, Live: true},
		"queues[].fair_share.key_from":         {Type: "mapping", Section: true, Live: true},
		"capsules[].single_active_consumer":    {Type: "true or false", Default: "false"},
		"queues[].storage.type":                {Type: "word", Default: "file", Range: "file, memory"},
		"queues[].fair_share.key_from.json":    {Type: "path of names", Range: "names with dots between, such as tenant.id", Live: true},
		"queues[].dead_letters.max_age":        {Type: "time", Default: "720h", Range: "0s to 87600h", Live: true},
		"queues[].limits.max_messages":         {Type: "whole number", Default: "0", Range: "0 to 9007199254740992", Live: true},
		"coordination.lease_ttl":               {Type: "time", Default: "10s; 15s when a queue has 3 or 5 replicas", Range: "1s to 5m"},
		"queues[].fair_share.weights":          {Type: "mapping to numbers", Default: "what the message says, else 1", Range: "up to 100000 entries, each above 0, at most 1000, three decimals", Live: true},
		"queues[].limits.overflow":             {Type: "word", Default: "reject", Range: "reject, ring, none", Live: true},
		"queues[].priority_levels":             {Type: "whole number, or list of names", Default: "1", Range: "1 to 100, each name 1 to 48 of A-Z a-z 0-9 _ -", Live: true},
		"queues[].dead_letters.retry_priority": {Type: "level's number or name", Default: "their own", Range: "one that the queue has", Live: true},
	} {
		got, ok := byPath[path]
		want.Path, want.Meaning = path, got.Meaning
		if !ok || got != want {
			t.Errorf("%s: there %v, %+v\nwant %+v", path, ok, got, want)
		}
	}
}
