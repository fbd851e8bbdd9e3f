package agent

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/config"
)

// A change of any setting is taken over by a running agent, or refused: as the reference says of it.
func TestReloadTakesOverWhatTheReferenceSays(t *testing.T) {
	base := map[string]any{
		"nats":   map[string]any{"url": "nats://a:4222", "user": "a", "password_file": "a", "tls": map[string]any{"ca": "a", "cert": "a", "key": "a"}},
		"queues": []any{queueWith("name", "a"), queueWith("name", "b")}, "capsules": []any{map[string]any{"name": "a", "queues": []any{"a"}}},
	}
	other := changes()
	for _, s := range config.Reference() {
		if s.Section || strings.HasPrefix(s.Path, "queues[].") && strings.Count(s.Path, ".") > 1 {
			continue // the queues' definitions are compared as a whole
		}
		value, ok := other[s.Path]
		if !ok {
			t.Errorf("%s: this test has no value to change it to: add one", s.Path)
			continue
		}
		delete(other, s.Path)
		before, after := withSetting(base, s.Path, nil), withSetting(base, s.Path, value)
		if strings.HasPrefix(s.Path, "nats.embedded.") {
			before = withSetting(map[string]any{"nats": map[string]any{"embedded": map[string]any{}}, "queues": base["queues"]}, "", nil)
			after = withSetting(before, s.Path, value)
		}
		if only, ok := value.(onlyThis); ok {
			after = withSetting(withSetting(base, "nats", map[string]any{"url": "nats://a:4222"}), s.Path, string(only))
		}
		refused := needRestart(parsed(t, s.Path, before), parsed(t, s.Path, after))
		if (len(refused) == 0) != s.Live {
			t.Errorf("%s: the reference says live %v, and a change of it needs a restart because of %q", s.Path, s.Live, refused)
		}
	}
	if len(other) > 0 {
		t.Errorf("there are no such settings: %q", slices.Sorted(maps.Keys(other)))
	}
}

// onlyThis is a way to sign in, of which there can be one.
type onlyThis string

// changes has another value than the default for each setting.
func changes() map[string]any {
	return map[string]any{
		"agent.id": "other", "agent.drain_timeout": "7s", "agent.poll_interval": "7s",
		"nats.url": "nats://b:4222", "nats.embedded.store_dir": "b", "nats.embedded.listen": "127.0.0.1:1", "nats.embedded.sync_interval": "7s",
		"nats.prefix": "b", "nats.creds": onlyThis("b"), "nats.nkey": onlyThis("b"), "nats.user": "b", "nats.password_file": "b",
		"nats.token_file": onlyThis("b"), "nats.tls.ca": "b", "nats.tls.cert": "b", "nats.tls.key": "b",
		"listen.socket": "/b", "listen.mode": "0600", "listen.admin_socket": "/b", "listen.probes_http": ":1", "listen.dashboard_http": "",
		"listen.allow_uids": []any{7}, "listen.allow_gids": []any{7}, "listen.publish_uids": []any{7}, "listen.publish_gids": []any{7},
		"capsules[].allow_uids": []any{7}, "capsules[].allow_gids": []any{7},
		"coordination.bucket": "b", "coordination.heartbeat_interval": "1s", "coordination.stale_after": "7s", "coordination.lease_ttl": "7s",
		"log.level": "warn", "log.format": "text", "metrics.top_keys": 7, "readiness.broker": false,
		"queues": []any{queueWith("name", "a"), queueWith("name", "c")}, "queues[].name": "c", "queues[].revision": 7, "queues[].priority_levels": 7, "queues[].default_priority": 0,
		"queues[].starvation_guard": 7, "queues[].fair_share": true, "queues[].single_active_consumer": true, "queues[].ack_wait": "20s",
		"queues[].ttl": "7s", "queues[].dedup_window": "7s", "queues[].concurrency_per_key": 7, "queues[].ordered_keys": true,
		"queues[].sources": []any{map[string]any{"stream": "S", "subject": "s"}},
		"capsules":         []any{}, "capsules[].name": "b", "capsules[].queues": []any{"b"}, "capsules[].concurrency": 7, "capsules[].lease": "7s",
		"capsules[].consumer_priority": 7, "capsules[].single_active_consumer": true,
	}
}

func queueWith(key string, value any) map[string]any { return map[string]any{key: value} }

// withSetting copies a file's tree and sets what a path leads to, of lists in the last item. A nil value sets nothing.
func withSetting(tree map[string]any, path string, value any) map[string]any {
	tree = maps.Clone(tree)
	name, rest, deeper := strings.Cut(path, ".")
	switch list, isList := strings.CutSuffix(name, "[]"); {
	case value == nil:
	case !deeper:
		tree[name] = value
	case isList:
		items := slices.Clone(tree[list].([]any))
		items[len(items)-1] = withSetting(items[len(items)-1].(map[string]any), rest, value)
		tree[list] = items
	default:
		inner, _ := tree[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		tree[name] = withSetting(inner, rest, value)
	}
	return tree
}

func parsed(t *testing.T, what string, tree map[string]any) *config.Config {
	t.Helper()
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Parse("fairlead.yaml", text, os.LookupEnv)
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, text)
	}
	return cfg
}
