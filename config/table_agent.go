package config

import (
	"regexp"
	"time"
)

// rootTable is the file as a whole. Whatever is a setting is in one of the
// tables that it leads to, and nowhere else.
var rootTable = &record[Config]{
	fields: []field[Config]{
		prop("agent", func(c *Config) *Agent { return &c.Agent }, agentTable,
			"The agent's own conduct."),
		prop("nats", func(c *Config) *NATS { return &c.NATS }, natsTable,
			"Where the messages are stored: url, or embedded.").
			must("`nats: {url: nats://HOST:4222}`, or `nats: {embedded: {store_dir: ./data}}` for a server inside the agent"),
		prop("listen", func(c *Config) *Listen { return &c.Listen }, listenTable,
			"Where the agent is reached."),
		prop("coordination", func(c *Config) *Coordination { return &c.Coordination }, coordinationTable,
			"How agents find each other. All agents of a bucket want the same values."),
		prop("log", func(c *Config) *Log { return &c.Log }, logTable,
			"How the agent logs."),
		prop("metrics", func(c *Config) *Metrics { return &c.Metrics }, metricsTable,
			"What the metrics show."),
		prop("readiness", func(c *Config) *Readiness { return &c.Readiness }, readinessTable,
			"What makes the agent ready."),
		prop("queues", func(c *Config) *[]Queue { return &c.Queues },
			list[Queue]{item: queueTable, low: 1, high: 1000, ofWhat: "queues"},
			"The queues that this agent serves or publishes to.").
			must("at least one queue, such as `queues: [{name: orders}]`"),
		prop("capsules", func(c *Config) *[]Capsule { return &c.Capsules },
			list[Capsule]{item: capsuleTable, high: 1000, ofWhat: "capsules"},
			"Named sets of queues that an app works through."),
	},
	finish: finishConfig,
	more:   object{"required": []string{"nats", "queues"}},
}

var agentIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{0,128}$`)

var agentTable = &record[Agent]{fields: []field[Agent]{
	prop("id", func(a *Agent) *string { return &a.ID },
		text{what: "an agent's id", pattern: agentIDPattern, rule: "write up to 128 of A-Z a-z 0-9 _ -"},
		"Names the agent among its peers; two live agents cannot share one. In pods: ${POD_NAME}. Default: the host's name and a random suffix."),
	propOr("drain_timeout", func(a *Agent) *time.Duration { return &a.DrainTimeout },
		duration{0, day}, 30*time.Second,
		"How long apps may settle what they hold after the stop signal. 0s returns everything at once."),
	propOr("poll_interval", func(a *Agent) *time.Duration { return &a.PollInterval },
		duration{10 * time.Millisecond, time.Minute}, 250*time.Millisecond,
		"Pause between two looks for work that no wake-up told of. Wake-ups make delivery fast; this makes it certain."),
}}

var coordinationTable = &record[Coordination]{
	fields: []field[Coordination]{
		prop("bucket", func(c *Coordination) *string { return &c.Bucket },
			text{what: "a bucket's name", pattern: regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`), rule: "write 1 to 64 of A-Z a-z 0-9 _ -"},
			"KV bucket of heartbeats, leases and live settings. Default: fairlead; with another nats.prefix than fl, fairlead-PREFIX."),
		propOr("heartbeat_interval", func(c *Coordination) *time.Duration { return &c.HeartbeatInterval },
			duration{100 * time.Millisecond, time.Minute}, 2*time.Second,
			"How often an agent says that it lives."),
		propOr("stale_after", func(c *Coordination) *time.Duration { return &c.StaleAfter },
			duration{200 * time.Millisecond, 10 * time.Minute}, 10*time.Second,
			"Silence after which a peer counts as gone. At least twice heartbeat_interval."),
		propOr("lease_ttl", func(c *Coordination) *time.Duration { return &c.LeaseTTL },
			duration{time.Second, 5 * time.Minute}, 10*time.Second,
			"How long a single active consumer's lease lives without renewal. At least twice heartbeat_interval. Default: 10s; 15s when a queue has 3 or 5 replicas."),
	},
	finish: finishCoordination,
}

var logTable = &record[Log]{fields: []field[Log]{
	propOr("level", func(l *Log) *string { return &l.Level },
		choice[string]{[]string{"trace", "debug", "info", "warn", "error"}}, "info",
		"The least severe lines that are logged."),
	propOr("format", func(l *Log) *string { return &l.Format },
		choice[string]{[]string{"json", "text"}}, "json",
		"json for machines, text for people."),
}}

var metricsTable = &record[Metrics]{fields: []field[Metrics]{
	propOr("top_keys", func(m *Metrics) *int { return &m.TopKeys },
		integer[int]{0, 1000}, 0,
		"How many tenant keys of each queue, those with the most messages, may appear in metrics. 0: none."),
}}

var readinessTable = &record[Readiness]{fields: []field[Readiness]{
	propOr("broker", func(r *Readiness) *bool { return &r.Broker },
		boolean{}, true,
		"Whether the agent is ready only while NATS is connected."),
}}

// finishCoordination checks the times against each other. A peer must be able
// to miss a heartbeat without being taken for dead.
func finishCoordination(d *decoder, at string, c *Coordination) {
	beat, stale, lease := join(at, "heartbeat_interval"), join(at, "stale_after"), join(at, "lease_ttl")
	if d.sound(beat, stale) && c.StaleAfter < 2*c.HeartbeatInterval {
		d.report(nearest(d, stale, beat), "stale_after is %s, and must be at least twice heartbeat_interval (%s): write %s or more",
			formatDuration(c.StaleAfter), formatDuration(c.HeartbeatInterval), formatDuration(2*c.HeartbeatInterval))
	}
	if d.sound(beat, lease) && c.LeaseTTL < 2*c.HeartbeatInterval {
		d.report(nearest(d, lease, beat), "lease_ttl is %s, and must be at least twice heartbeat_interval (%s): write %s or more",
			formatDuration(c.LeaseTTL), formatDuration(c.HeartbeatInterval), formatDuration(2*c.HeartbeatInterval))
	}
}

// nearest picks, of the settings that a problem lies between, the first one
// that the file gives; else the first.
func nearest(d *decoder, paths ...string) string {
	for _, p := range paths {
		if d.isSet(p) {
			return p
		}
	}
	return paths[0]
}
