package config

import (
	"strings"
	"testing"
)

// at builds a file around one setting: section is the place, as in
// "queue: ttl: 15".
func at(t *testing.T, section, setting string) string {
	t.Helper()
	switch section {
	case "queue":
		return "nats: {url: nats://n:4222}\nqueues:\n- name: q\n  " + setting + "\ncapsules: [{name: c, queues: [q]}]\n"
	case "capsule":
		return "nats: {url: nats://n:4222}\nqueues: [{name: q}]\ncapsules:\n- name: c\n  queues: [q]\n  " + setting + "\n"
	case "nats":
		return "nats:\n  " + setting + "\nqueues: [{name: q}]\ncapsules: [{name: c, queues: [q]}]\n"
	case "root":
		return minimal + setting + "\n"
	}
	t.Fatalf("no section %q", section)
	return ""
}

// TestRules has a line for each rule: a setting and what is said of it, ""
// when it is right. In minimal files the setting stands on line 4 (queue,
// root), 6 (capsule) or 2 (nats).
func TestRules(t *testing.T) {
	for _, c := range []struct{ section, setting, want string }{
		// agent
		{"root", "agent: {id: a_b-1}", ""},
		{"root", `agent: {id: ""}`, ""},
		{"root", "agent: {id: a.b}", `4:13: agent.id: "a.b" is not an agent's id: write up to 128 of A-Z a-z 0-9 _ -`},
		{"root", "agent: {id: 7}", "4:13: agent.id: wants an agent's id, not the number 7: put it in quotes"},
		{"root", "agent: {id: [a]}", "4:13: agent.id: wants an agent's id, not a list"},
		{"root", `agent: {id: "a\0b"}`, "4:13: agent.id: has a control character or is not UTF-8"},
		{"root", "agent: {drain_timeout: 0s}", ""},
		{"root", "agent: {drain_timeout: 25h}", "4:24: agent.drain_timeout: is 25h, and must be from 0s to 24h"},
		{"root", "agent: {drain_timeout: -5s}", "4:24: agent.drain_timeout: is -5s, and a time cannot be negative: write 0s or more"},
		{"root", "agent: {poll_interval: 1ms}", "4:24: agent.poll_interval: is 1ms, and must be from 10ms to 1m"},
		{"root", "agent: {poll_interval: }", "4:24: agent.poll_interval: has no value: write one, or remove the line"},
		{"root", "agent:", ""},
		{"root", "agent: no", `4:8: agent: wants a mapping, not the text "no"`},

		// nats
		{"nats", "url: tls://n:4222", ""},
		{"nats", "url: [nats://a:4222, nats://b]", ""},
		{"nats", `url: "nats://a:4222, nats://b:4222"`, ""},
		{"nats", "url: localhost:4222", "2:8: nats.url: wants a NATS address: write nats://HOST:4222"},
		{"nats", "url: http://n:4222", "2:8: nats.url: the scheme http:// is not one of nats://, tls://, ws://, wss://"},
		{"nats", "url: [nats://a:4222, 5]", "2:24: nats.url[1]: wants a NATS address, not the number 5: put it in quotes"},
		{"nats", "url: []", "2:8: nats.url: has no items: list at least 1 of NATS addresses"},
		{"nats", "url: [nats://a, ws://b]", "2:8: nats.url: mixes ws:// or wss:// with other schemes: use one kind"},
		{"nats", `url: "bad://user:secret@n"`, "2:8: nats.url: the scheme bad:// is not one of nats://, tls://, ws://, wss://"},
		{"nats", "prefix: fl", "2:3: nats: has no server: write `url: nats://HOST:4222`, or `embedded: {store_dir: ./data}` for one inside the agent"},
		{"nats", "{embedded: {}, url: nats://n}", "2:14: nats.embedded: url and embedded are both there: keep the server that the agent should use"},
		{"nats", "embedded: {store_dir: /d, listen: 127.0.0.1:4222, sync_interval: 10s}", ""},
		{"nats", "embedded: {sync_interval: always}", ""},
		{"nats", "embedded: {sync_interval: never}", `2:29: nats.embedded.sync_interval: wants a time such as 250ms, 30s, 2m or 720h, not the text "never"`},
		{"nats", "embedded: {sync_interval: 0s}", "2:29: nats.embedded.sync_interval: is 0s, and must be from 1ms to 1h"},
		{"nats", `embedded: {store_dir: ""}`, "2:25: nats.embedded.store_dir: is empty: write a path"},
		{"nats", "embedded: {listen: 4222}", "2:22: nats.embedded.listen: wants host:port, not the number 4222: put it in quotes"},
		{"nats", "{embedded: {}, creds: /c}", "2:25: nats.creds: is for a server at url, and the embedded one needs none: remove it"},
		{"nats", "{url: nats://n, prefix: FL}", `2:27: nats.prefix: "FL" is not a prefix: write a letter and up to 15 of a-z 0-9 _ -, in lower case`},
		{"nats", "{url: nats://n, prefix: a2345678901234567}", `2:27: nats.prefix: "a2345678901234567" is not a prefix: write a letter and up to 15 of a-z 0-9 _ -, in lower case`},
		{"nats", "{url: nats://n, user: u}", "2:25: nats.user: user and password_file go together: write both or neither"},
		{"nats", "{url: nats://n, user: u, password_file: /p}", ""},
		{"nats", "{url: nats://n, creds: /c, nkey: /n}", "2:36: nats.nkey: creds and nkey are both there: keep one way to sign in"},
		{"nats", "{url: nats://n, tls: {cert: /c}}", "2:24: nats.tls: cert and key go together: write both or neither"},
		{"nats", "{url: nats://n, password: x}", "2:19: nats.password: unknown key: did you mean password_file?"},

		// listen
		{"root", "listen: {mode: 0660}", ""},
		{"root", `listen: {mode: "660"}`, `4:16: listen.mode: wants permission bits in octal such as "0660", not the text "660"`},
		{"root", `listen: {mode: "0060"}`, `4:16: listen.mode: is 0060, and must let the owner read and write, such as "0660"`},
		{"root", `listen: {mode: "0888"}`, `4:16: listen.mode: wants permission bits in octal such as "0660", not the text "0888"`},
		{"root", "listen: {socket: /" + strings.Repeat("x", 106) + ", admin_socket: /a}", ""},
		{"root", "listen: {socket: /" + strings.Repeat("x", 107) + ", admin_socket: /a}", "4:18: listen.socket: has 108 bytes, and a socket's path may have 107: use a shorter folder"},
		{"root", "listen: {socket: /" + strings.Repeat("x", 98) + "/a}", "4:9: listen.admin_socket: the default, admin.sock in the folder of socket, has 110 bytes, and a socket's path may have 107: use a shorter folder"},
		{"root", `listen: {socket: ""}`, "4:18: listen.socket: is empty: write a path"},
		{"root", `listen: {socket: "@fl"}`, "4:18: listen.socket: is an abstract socket, which has no owner and no mode: write a path"},
		{"root", "listen: {socket: /run/}", "4:18: listen.socket: names a folder: write the path of the socket file in it"},
		{"root", "listen: {socket: /a/x, admin_socket: /a/./x}", "4:38: listen.admin_socket: socket and admin_socket are the same path: write two"},
		{"root", "listen: {socket: /a/admin.sock}", "4:18: listen.socket: is the path of the default admin_socket: write that too, or another name here"},
		{"root", `listen: {probes_http: "", dashboard_http: ""}`, ""},
		{"root", `listen: {probes_http: ":70000"}`, `4:23: listen.probes_http: ":70000" has no port number from 0 to 65535`},
		{"root", "listen: {probes_http: localhost}", `4:23: listen.probes_http: "localhost" is not host:port: write 127.0.0.1:PORT, or :PORT for all interfaces`},
		{"root", `listen: {probes_http: ":1", dashboard_http: ":1"}`, "4:45: listen.dashboard_http: probes_http and dashboard_http are the same address: write two"},
		{"root", "listen: {publish_uids: [-1]}", "4:25: listen.publish_uids[0]: is -1, and must be from 0 to 4294967294"},
		{"root", "listen: {allow_uids: [0, 4294967295]}", "4:26: listen.allow_uids[1]: is 4294967295, and must be from 0 to 4294967294"},
		{"root", "listen: {allow_gids: [staff]}", `4:23: listen.allow_gids[0]: wants a whole number, not the text "staff"`},

		// coordination and the small sections
		{"root", "coordination: {bucket: a.b}", `4:24: coordination.bucket: "a.b" is not a bucket's name: write 1 to 64 of A-Z a-z 0-9 _ -`},
		{"root", "coordination: {stale_after: 2s}", "4:29: coordination.stale_after: stale_after is 2s, and must be at least twice heartbeat_interval (2s): write 4s or more"},
		{"root", "coordination: {heartbeat_interval: 6s, lease_ttl: 12s}", "4:36: coordination.heartbeat_interval: stale_after is 10s, and must be at least twice heartbeat_interval (6s): write 12s or more"},
		{"root", "coordination: {heartbeat_interval: 1s, lease_ttl: 1s}", "4:51: coordination.lease_ttl: lease_ttl is 1s, and must be at least twice heartbeat_interval (1s): write 2s or more"},
		{"root", "coordination: {lease_ttl: 31s}", "4:27: coordination.lease_ttl: is 31s, above the ack_wait of queue q (30s): write less, or raise ack_wait"},
		{"root", "log: {level: warning}", `4:14: log.level: wants one of trace, debug, info, warn, error, not the text "warning"`},
		{"root", "log: {format: xml}", `4:15: log.format: wants one of json, text, not the text "xml"`},
		{"root", "metrics: {top_keys: -1}", "4:21: metrics.top_keys: is -1, and must be from 0 to 1000"},
		{"root", "readiness: {broker: yes}", `4:21: readiness.broker: wants true or false, not the text "yes"`},
		{"root", `readiness: {broker: "true"}`, `4:21: readiness.broker: wants true or false, not the text "true"`},
		{"root", "readiness: {broker: False}", ""},

		// queues: names and levels
		{"root", "concurrency: 5", "4:1: concurrency: unknown key"},
		{"queue", "max_messages: 5", "4:3: queues[0].max_messages: unknown key: did you mean limits.max_messages?"},
		{"queue", "levels: 5", "4:3: queues[0].levels: unknown key: did you mean priority_levels?"},
		{"queue", "fairShare: true", "4:3: queues[0].fairShare: unknown key: did you mean fair_share?"},
		{"queue", "revision: -1", "4:13: queues[0].revision: is -1, and must be from 0 to 9007199254740992"},
		{"queue", "priority_levels: 1", ""},
		{"queue", "priority_levels: 100", ""},
		{"queue", "priority_levels: 0", "4:20: queues[0].priority_levels: is 0, and must be from 1 to 100"},
		{"queue", "priority_levels: 101", "4:20: queues[0].priority_levels: is 101, and must be from 1 to 100"},
		{"queue", "priority_levels: 99999999999999999999", "4:20: queues[0].priority_levels: is 99999999999999999999, and must be from 1 to 100"},
		{"queue", "priority_levels: 2.0", "4:20: queues[0].priority_levels: wants a number of levels, or a list of their names, not the number 2.0"},
		{"queue", "priority_levels: 03", "4:20: queues[0].priority_levels: wants a whole number without leading zeros, not 03"},
		{"queue", "priority_levels: []", "4:20: queues[0].priority_levels: has no items: list at least 1 of level names"},
		{"queue", "priority_levels: [a, b, a]", "4:27: queues[0].priority_levels[2]: a is there twice: names of levels must differ"},
		{"queue", `priority_levels: [a, "2"]`, "4:24: queues[0].priority_levels[1]: a level's name cannot be a number: add a letter"},
		{"queue", "priority_levels: [a, 2]", "4:24: queues[0].priority_levels[1]: wants a level's name, not the number 2: put it in quotes"},
		{"queue", "priority_levels: [a b]", `4:21: queues[0].priority_levels[0]: "a b" is not a level's name: write 1 to 48 of A-Z a-z 0-9 _ -`},
		{"queue", "default_priority: 1", "4:21: queues[0].default_priority: is 1, and the queue has no such level: write 0, or give it more priority_levels"},
		{"queue", "default_priority: low", `4:21: queues[0].default_priority: the queue has no level "low": write 0, or give it more priority_levels`},
		{"queue", "default_priority: true", "4:21: queues[0].default_priority: wants a level's number or name, not true"},
		{"queue", "starvation_guard: -1", "4:21: queues[0].starvation_guard: is -1, and must be from 0 to 1000000"},

		// queues: fair share
		{"queue", "fair_share: true", ""},
		{"queue", "fair_share: {}", ""},
		{"queue", "fair_share: on", `4:15: queues[0].fair_share: wants true, false or a mapping such as {weights: {acme: 3}}, not the text "on"`},
		{"queue", "fair_share: [a]", "4:15: queues[0].fair_share: wants a mapping, not a list"},
		{"queue", "fair_share: {weights: {a: 1000, b: 0.001, c: 0.500, d: .5, 5: 5.}}", ""},
		{"queue", "fair_share: {weights: {a: 0}}", "4:29: queues[0].fair_share.weights.a: is 0, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: -1}}", "4:29: queues[0].fair_share.weights.a: is -1, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: 1000.001}}", "4:29: queues[0].fair_share.weights.a: is 1000.001, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: 0.0005}}", "4:29: queues[0].fair_share.weights.a: is 0.0005, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: .nan}}", "4:29: queues[0].fair_share.weights.a: is .nan, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: 1e-9}}", "4:29: queues[0].fair_share.weights.a: is 1e-9, and must be above 0 and at most 1000, with at most three decimals"},
		{"queue", "fair_share: {weights: {a: abc}}", `4:29: queues[0].fair_share.weights.a: wants a weight such as 3 or 0.5, not the text "abc"`},
		{"queue", `fair_share: {weights: {a: "3"}}`, `4:29: queues[0].fair_share.weights.a: wants a weight such as 3 or 0.5, not the text "3"`},
		{"queue", "fair_share: {weights: {" + strings.Repeat("k", 128) + ": 1}}", ""},
		{"queue", "fair_share: {weights: {" + strings.Repeat("k", 129) + ": 1}}", "4:26: queues[0].fair_share.weights.\"" + strings.Repeat("k", 60) + "…\": a tenant key may have 128 bytes, counting 3 for each byte that is not one of A-Z a-z 0-9 _ -; this one has 129"},
		{"queue", "fair_share: {weights: {" + strings.Repeat("é", 21) + ": 1}}", ""},
		{"queue", "fair_share: {weights: {" + strings.Repeat("é", 22) + ": 1}}", "4:26: queues[0].fair_share.weights.\"" + strings.Repeat("é", 22) + "\": a tenant key may have 128 bytes, counting 3 for each byte that is not one of A-Z a-z 0-9 _ -; this one has 132"},
		{"queue", "fair_share: {key_from: {header: X-T}}", ""},
		{"queue", "fair_share: {key_from: {json: a.b}}", ""},
		{"queue", "fair_share: {key_from: {header: Fairlead-Header-X-T}}", "4:35: queues[0].fair_share.key_from.header: is how publishers write it on the socket: leave Fairlead-Header- out"},
		{"queue", "fair_share: {key_from: {header: nats-msg-id}}", "4:35: queues[0].fair_share.key_from.header: is no name that an application header can have: write another, such as X-Tenant"},
		{"queue", "fair_share: {key_from: {header: Content-Type}}", "4:35: queues[0].fair_share.key_from.header: is no name that an application header can have: write another, such as X-Tenant"},
		{"queue", "fair_share: {key_from: {header: a b}}", `4:35: queues[0].fair_share.key_from.header: "a b" is not a header's name: write a name such as X-Tenant`},
		{"queue", "fair_share: {key_from: {}}", "4:26: queues[0].fair_share.key_from: says nothing: write {header: X-Tenant} or {json: tenant.id}"},
		{"queue", "fair_share: {key_from: {header: X-T, json: a}}", "4:46: queues[0].fair_share.key_from.json: header and json are both there: keep one"},
		{"queue", "fair_share: {key_from: {json: a..b}}", `4:33: queues[0].fair_share.key_from.json: "a..b" is not a path of names: write names with dots between, such as tenant.id`},

		// queues: limits
		{"queue", "limits: {max_bytes: 1024}", ""},
		{"queue", "limits: {max_bytes: 1.5GiB}", `4:23: queues[0].limits.max_bytes: wants a size in bytes, or with one of the units KiB, MiB, GiB such as 64MiB, not the text "1.5GiB"`},
		{"queue", "limits: {max_bytes: -1}", "4:23: queues[0].limits.max_bytes: is -1, and a size cannot be negative"},
		{"queue", "limits: {max_bytes: 9223372036854775807GiB}", "4:23: queues[0].limits.max_bytes: is 9223372036854775807GiB, and must be at most 1048576GiB"},
		{"queue", "limits: {max_payload: 64MiB}", ""},
		{"queue", "limits: {max_payload: 65MiB}", "4:25: queues[0].limits.max_payload: is 65MiB, and must be at most 64MiB"},
		{"queue", "limits: {max_payload: 2KiB, max_bytes: 1KiB}", "4:25: queues[0].limits.max_payload: is 2KiB, and a message that big would not fit into max_bytes (1KiB)"},
		{"queue", "limits: {max_messages: 5, overflow: none}", "4:39: queues[0].limits.overflow: is none, and there are limits: write reject or ring, or remove the limits"},
		{"queue", "limits: {overflow: ring}", "4:22: queues[0].limits.overflow: is ring, and there is no limit to keep: write max_messages, max_bytes or max_messages_per_key"},
		{"queue", "limits: {max_messages: 5, overflow: ring}", ""},
		{"queue", "limits: {max_bytes: 5, overflow: ring}", ""},
		{"queue", "limits: {max_messages_per_key: 5, overflow: ring}\n  fair_share: true", ""},
		{"queue", "limits: {max_messages: 5, overflow: ring}\n  single_active_consumer: true", "4:39: queues[0].limits.overflow: is ring, which does not go together with single_active_consumer: write reject, or remove single_active_consumer"},
		{"queue", "limits: {max_messages: 5, overflow: ring}\n  ordered_keys: true", "4:39: queues[0].limits.overflow: is ring, which does not go together with ordered_keys: write reject, or remove ordered_keys"},
		{"queue", "limits: {max_messages: 5, overflow: ring}\n  concurrency_per_key: 2", "4:39: queues[0].limits.overflow: is ring, which does not go together with concurrency_per_key: write reject, or remove concurrency_per_key"},
		{"queue", "limits: {overflow: block}", `4:22: queues[0].limits.overflow: wants one of reject, ring, none, not the text "block"`},
		{"queue", "limits: {max_messages: 1_000}", `4:26: queues[0].limits.max_messages: wants a whole number, not the text "1_000"`},
		{"queue", "limits: {max_messages: 9007199254740993}", "4:26: queues[0].limits.max_messages: is 9007199254740993, and must be from 0 to 9007199254740992"},

		// queues: retry, dead letters, times
		{"queue", "retry: {max_attempts: 0}", ""},
		{"queue", "retry: {max_attempts: -1}", "4:25: queues[0].retry.max_attempts: is -1, and must be from 0 to 1000000"},
		{"queue", "retry: {backoff: []}", "4:20: queues[0].retry.backoff: has no items: list at least 1 of times such as 5s"},
		{"queue", "retry: {backoff: [5s, 10]}", "4:25: queues[0].retry.backoff[1]: a time needs a unit: write 10s for seconds"},
		{"queue", "retry: {backoff: 5s}", `4:20: queues[0].retry.backoff: wants a list of times such as 5s, not the text "5s"`},
		{"queue", "retry: {jitter: 0}", ""},
		{"queue", "retry: {jitter: 1}", ""},
		{"queue", "retry: {jitter: 1.01}", "4:19: queues[0].retry.jitter: is 1.01, and must be from 0 to 1"},
		{"queue", "retry: {jitter: .nan}", "4:19: queues[0].retry.jitter: is .nan, and must be from 0 to 1"},
		{"queue", "retry: {jitter: true}", "4:19: queues[0].retry.jitter: wants a number, not true"},
		{"queue", "retry: {jitter: 15%}", `4:19: queues[0].retry.jitter: wants a number, not the text "15%"`},
		{"queue", "dead_letters: {retry_priority: 1}", "4:34: queues[0].dead_letters.retry_priority: is 1, and the queue has no such level: write 0, or give it more priority_levels"},
		{"queue", "dead_letters: false", "4:17: queues[0].dead_letters: wants a mapping, not false"},
		{"queue", "ttl: 15", "4:8: queues[0].ttl: a time needs a unit: write 15s for seconds"},
		{"queue", "ttl: 1.5h", ""},
		{"queue", "ttl: 2d", "4:8: queues[0].ttl: a time has no unit for days: write 48h"},
		{"queue", "ttl: 5 s", `4:8: queues[0].ttl: wants a time such as 250ms, 30s, 2m or 720h, not the text "5 s"`},
		{"queue", "ttl: 99999999999999h", "4:8: queues[0].ttl: is 99999999999999h, and must be from 0s to 87600h"},
		{"queue", "ack_wait: 0s", "4:13: queues[0].ack_wait: is 0s, and must be from 100ms to 1h"},
		{"queue", "ack_wait: 5s", ""},
		{"queue", "dedup_window: 0s", "4:17: queues[0].dedup_window: is 0s, and must be from 100ms to 168h"},

		// queues: the rest
		{"queue", "compress: {}", ""},
		{"queue", "compress: {algorithm: zstd}", `4:25: queues[0].compress.algorithm: wants one of gzip, not the text "zstd"`},
		{"queue", "compress: gzip", `4:13: queues[0].compress: wants a mapping, not the text "gzip"`},
		{"queue", "concurrency_per_key: 1001", "4:24: queues[0].concurrency_per_key: is 1001, and must be from 0 to 1000"},
		{"queue", "sources: [{stream: S}]", "4:13: queues[0].sources[0].subject: is missing: write `subject: \"events.>\"`"},
		{"queue", "sources: [{stream: a.b, subject: a.b}]", `4:22: queues[0].sources[0].stream: "a.b" is not a stream's name: write it without spaces, dots, wildcards and slashes`},
		{"queue", "sources: [{stream: S, subject: a..b}]", "4:34: queues[0].sources[0].subject: has an empty token: remove the extra dot"},
		{"queue", "sources: [{stream: S, subject: a.>.b}]", "4:34: queues[0].sources[0].subject: has > before its end: only the last token may be >"},
		{"queue", "sources: [{stream: S, subject: a.b*}]", "4:34: queues[0].sources[0].subject: has a wildcard inside a token: * and > stand alone"},
		{"queue", `sources: [{stream: S, subject: "a.*", key: "{{wildcard(2)}}"}]`, `4:46: queues[0].sources[0].key: {{wildcard(2)}} counts the * of subject, and "a.*" has 1`},
		{"queue", `sources: [{stream: S, subject: "a.*", key: "{{wildcard(0)}}"}]`, `4:46: queues[0].sources[0].key: {{wildcard(0)}} counts the * of subject, and "a.*" has 1`},
		{"queue", `sources: [{stream: S, subject: "a.>", key: "{{wildcard(1)}}"}]`, `4:46: queues[0].sources[0].key: {{wildcard(1)}} counts the * of subject, and "a.>" has 0`},
		{"queue", `sources: [{stream: S, subject: "a.*.*.>", key: "{{ wildcard( 2 ) }}"}]`, ""},
		{"queue", `sources: [{stream: S, subject: "a.*", key: "t-{{wildcard(1)}}"}]`, "4:46: queues[0].sources[0].key: has {{wildcard(1)}} among other text: a template is the whole key, such as {{wildcard(1)}}"},
		{"queue", `sources: [{stream: S, subject: "a.*", key: "{{wildcard(1)"}]`, "4:46: queues[0].sources[0].key: has {{ among other text: a template is the whole key, such as {{wildcard(1)}}"},
		{"queue", "sources: [{stream: S, subject: a.b}, {stream: T, subject: a.b}]", ""},
		{"queue", "sources: [{stream: S, subject: a.b}, {stream: S, subject: a.c}, {stream: S, subject: a.*.c}]", ""},
		{"queue", "sources: [{stream: S, subject: a.b}, {stream: S, subject: a.b}]", "4:61: queues[0].sources[1].subject: is that of sources[0] too: remove one of the two"},
		{"queue", `sources: [{stream: S, subject: "a.*", key: "{{split(1)}}"}]`, "4:46: queues[0].sources[0].key: has a template that is not known: write {{wildcard(1)}}"},
		{"queue", `sources: [{stream: S, subject: a.b, key: "` + strings.Repeat(".", 43) + `"}]`, "4:44: queues[0].sources[0].key: a tenant key may have 128 bytes, counting 3 for each byte that is not one of A-Z a-z 0-9 _ -; this one has 129"},
		{"queue", "sources: [{stream: S, subject: a.b, priority: 1}]", "4:49: queues[0].sources[0].priority: is 1, and the queue has no such level: write 0, or give it more priority_levels"},
		{"queue", "storage: {replicas: 3}", ""},
		{"queue", "storage: {replicas: 2}", "4:23: queues[0].storage.replicas: is 2, and must be 1, 3 or 5"},
		{"queue", "storage: {type: disk}", `4:19: queues[0].storage.type: wants one of file, memory, not the text "disk"`},
		{"queue", "storage: {type: !!str file}", "4:19: queues[0].storage.type: the tag !!str has no meaning here: remove it"},

		// capsules
		{"capsule", "concurrency: 0", "6:16: capsules[0].concurrency: is 0, and must be from 1 to 100000"},
		{"capsule", `concurrency: "5"`, "6:16: capsules[0].concurrency: wants a whole number, not text: remove the quotes around 5"},
		{"capsule", "lease: 60", "6:10: capsules[0].lease: a time needs a unit: write 60s for seconds"},
		{"capsule", "consumer_priority: -1000000", ""},
		{"capsule", "consumer_priority: 1000001", "6:22: capsules[0].consumer_priority: is 1000001, and must be from -1000000 to 1000000"},
		{"capsule", "concurrency: ~", "6:16: capsules[0].concurrency: has no value: write one, or remove the line"},
		{"capsule", "name: d", "6:3: capsules[0].name: is there twice, first on line 4: keep one"},
	} {
		if got := strings.Join(problems(t, at(t, c.section, c.setting)), "\n"); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.section, c.setting, got, c.want)
		}
	}
}

// Rules that take more than one line to break.
func TestRulesBetweenSections(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no queues": {"nats: {url: nats://n}\nqueues: []\n", []string{
			"2:9: queues: has no items: list at least 1 of queues",
		}},
		"nothing that is needed": {"log: {level: info}\n", []string{
			"1:1: nats: is missing: write `nats: {url: nats://HOST:4222}`, or `nats: {embedded: {store_dir: ./data}}` for a server inside the agent",
			"1:1: queues: is missing: write at least one queue, such as `queues: [{name: orders}]`",
		}},
		"names": {"nats: {url: nats://n}\nqueues:\n- name: a.b\n- priority_levels: 2\n- name: a\n- name: a\n- name: " + strings.Repeat("x", 49) + "\n", []string{
			`3:9: queues[0].name: "a.b" is not a name: write 1 to 48 of A-Z a-z 0-9 _ -`,
			"4:3: queues[1].name: is missing: write `name: orders`",
			"6:9: queues[3].name: a is there twice, first on line 5: names must differ",
			`7:9: queues[4].name: "` + strings.Repeat("x", 49) + `" is not a name: write 1 to 48 of A-Z a-z 0-9 _ -`,
		}},
		"capsules": {"nats: {url: nats://n}\nqueues: [{name: orders}]\ncapsules:\n- name: a\n- {name: a, queues: []}\n- {name: b, queues: [orders, orders, zzz]}\n", []string{
			"4:3: capsules[0].queues: is missing: write the queues to work through, such as `queues: [orders]`",
			"5:10: capsules[1].name: a is there twice, first on line 4: names must differ",
			"5:21: capsules[1].queues: has no items: list at least 1 of queue names",
			"6:30: capsules[2].queues[1]: orders is there twice: its place in the order is where it stands first",
			"6:38: capsules[2].queues[2]: there is no queue zzz: write one of orders",
		}},
		"default level above the levels": {"nats: {url: nats://n}\nqueues: [{name: q, priority_levels: 3, default_priority: 3}]\n", []string{
			"2:58: queues[0].default_priority: is 3, and the queue has no such level: write 0 to 2",
		}},
		"order and a cap": {"nats: {url: nats://n}\nqueues: [{name: q, ordered_keys: true, concurrency_per_key: 2}]\n", []string{
			"2:61: queues[0].concurrency_per_key: is 2, and ordered_keys allows one at a time: remove one of the two",
		}},
		"replicas of an embedded server": {"nats: {embedded: {}}\nqueues: [{name: q, storage: {replicas: 3}}]\n", []string{
			"2:40: queues[0].storage.replicas: is 3, and the embedded server is alone: write 1, or use nats.url",
		}},
		"a mistake is told once": {"nats: {url: nats://n}\nqueues: [{name: q, priority_levels: x, default_priority: 2}]\n", []string{
			`2:37: queues[0].priority_levels: wants a number of levels, or a list of their names, not the text "x"`,
		}},
		"not a mapping": {"- a\n", []string{"1:1: wants a mapping, not a list"}},
	} {
		t.Run(name, func(t *testing.T) { diff(t, problems(t, c.text), c.want) })
	}
}
