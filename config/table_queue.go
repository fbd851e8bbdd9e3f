package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

const maxLevels = 100

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,48}$`)
	// queueName is the name of a queue or a capsule.
	queueName = text{what: "a name", pattern: namePattern, rule: "write 1 to 48 of A-Z a-z 0-9 _ -"}
	// count is a limit; JSON keeps whole numbers up to 2^53 exact.
	count   = integer[int64]{0, 1 << 53}
	backoff = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}
)

var queueTable = &record[Queue]{
	fields: []field[Queue]{
		prop("name", func(q *Queue) *string { return &q.Name }, queueName,
			"The queue's name, which is part of its subjects.").must("`name: orders`"),
		propOr("revision", func(q *Queue) *int64 { return &q.Revision }, count, 0,
			"Raise it to make this definition win over others in force."),
		levelsField(),
		prop("default_priority", func(q *Queue) *int { return &q.DefaultPriority }, levelRef{},
			"Level of messages without one. Default: the middle level, (levels-1)/2."),
		propOr("starvation_guard", func(q *Queue) *int { return &q.StarvationGuard }, integer[int]{0, 1_000_000}, 0,
			"After this many deliveries of a level, one turn goes to the next lower level that has work. 0: strict."),
		prop("fair_share", func(q *Queue) *FairShare { return &q.FairShare }, fairShareShape{fairShareTable},
			"Whether tenants share the queue by weight: true, or a mapping. Default: false, arrival order."),
		propOr("single_active_consumer", func(q *Queue) *bool { return &q.SingleActiveConsumer }, boolean{}, false,
			"One worker for the queue, strictly in order, one message in flight."),
		prop("limits", func(q *Queue) *Limits { return &q.Limits }, limitsTable,
			"Bounds of the queue. Default: none."),
		prop("retry", func(q *Queue) *Retry { return &q.Retry }, retryTable,
			"How failed messages are tried again."),
		prop("dead_letters", func(q *Queue) *DeadLetters { return &q.DeadLetters }, deadLettersTable,
			"What happens to messages that are given up."),
		propOr("ack_wait", func(q *Queue) *time.Duration { return &q.AckWait }, duration{100 * time.Millisecond, time.Hour}, 30*time.Second,
			"Silence of an agent after which its work is given to another. Not a limit for handlers: a live delivery is extended."),
		propOr("ttl", func(q *Queue) *time.Duration { return &q.TTL }, duration{0, 10 * 365 * day}, 0,
			"Messages older than this are not delivered. 0s: no limit."),
		propOr("dedup_window", func(q *Queue) *time.Duration { return &q.DedupWindow }, duration{100 * time.Millisecond, 7 * day}, 2*time.Minute,
			"How long an id suppresses duplicates."),
		prop("compress", func(q *Queue) **Compress { return &q.Compress }, pointer[Compress]{compressTable},
			"Payloads travel and rest compressed. Absent: off."),
		propOr("concurrency_per_key", func(q *Queue) *int { return &q.ConcurrencyPerKey }, integer[int]{0, 1000}, 0,
			"Messages of one key in flight at most, over all agents and levels. 0: no cap."),
		propOr("ordered_keys", func(q *Queue) *bool { return &q.OrderedKeys }, boolean{}, false,
			"One message of a key at a time, in order, through retries."),
		prop("sources", func(q *Queue) *[]Source { return &q.Sources }, list[Source]{item: sourceTable, high: 100, ofWhat: "sources"},
			"Other JetStream streams that feed the queue."),
		prop("storage", func(q *Queue) *Storage { return &q.Storage }, storageTable,
			"How JetStream keeps the queue."),
	},
	finish: finishQueue,
	more:   object{"required": []string{"name"}},
}

var limitsTable = &record[Limits]{
	fields: []field[Limits]{
		propOr("max_messages", func(l *Limits) *int64 { return &l.MaxMessages }, count, 0,
			"Messages in the queue, in flight included. 0: unlimited."),
		propOr("max_bytes", func(l *Limits) *int64 { return &l.MaxBytes }, size{1 << 50}, 0,
			"Stored bytes as JetStream counts them. 0: unlimited."),
		propOr("max_messages_per_key", func(l *Limits) *int64 { return &l.MaxMessagesPerKey }, count, 0,
			"Messages of one key in one level. 0: unlimited."),
		propOr("max_payload", func(l *Limits) *int64 { return &l.MaxPayload }, size{64 * mib}, 0,
			"Bytes of one message's body as published. 0: what the server takes."),
		propOr("overflow", func(l *Limits) *Overflow { return &l.Overflow }, choice[Overflow]{[]Overflow{OverflowReject, OverflowRing, OverflowNone}}, OverflowReject,
			"At the limit: reject tells the publisher, ring makes the oldest waiting message of the lowest level go. none: there is no limit."),
	},
	finish: finishLimits,
}

var retryTable = &record[Retry]{fields: []field[Retry]{
	propOr("max_attempts", func(r *Retry) *int { return &r.MaxAttempts }, integer[int]{0, 1_000_000}, 5,
		"Attempts before a message is given up. 0: never."),
	propOr("backoff", func(r *Retry) *[]time.Duration { return &r.Backoff },
		list[time.Duration]{item: duration{0, 30 * day}, low: 1, high: 100, ofWhat: "times such as 5s"}, backoff,
		"Delay after the first attempt, the second, and so on; the last one repeats."),
	propOr("jitter", func(r *Retry) *float64 { return &r.Jitter }, fraction{0, 1}, 0.15,
		"Share of the delay that is added at random."),
}}

var deadLettersTable = &record[DeadLetters]{fields: []field[DeadLetters]{
	propOr("enabled", func(l *DeadLetters) *bool { return &l.Enabled }, boolean{}, true,
		"false drops messages that are given up, and counts them."),
	propOr("max_age", func(l *DeadLetters) *time.Duration { return &l.MaxAge }, duration{0, 10 * 365 * day}, 720*time.Hour,
		"How long they are kept. 0s: for ever."),
	prop("retry_priority", func(l *DeadLetters) **int { return &l.RetryPriority }, pointer[int]{levelRef{}},
		"Level at which they are tried again. Default: their own."),
	propOr("evicted", func(l *DeadLetters) *bool { return &l.Evicted }, boolean{}, false,
		"Whether messages that overflow: ring evicts are kept too."),
}}

var compressTable = &record[Compress]{fields: []field[Compress]{
	propOr("algorithm", func(c *Compress) *string { return &c.Algorithm }, choice[string]{[]string{"gzip"}}, "gzip",
		"How payloads are compressed."),
	propOr("min_bytes", func(c *Compress) *int64 { return &c.MinBytes }, size{64 * mib}, kib,
		"Smaller payloads stay as they are."),
}}

var sourceTable = &record[Source]{
	fields: []field[Source]{
		prop("stream", func(s *Source) *string { return &s.Stream },
			text{what: "a stream's name", pattern: regexp.MustCompile(`^[^\s.*>/\\]{1,255}$`), rule: "write it without spaces, dots, wildcards and slashes"},
			"The stream to read from.").must("`stream: EVENTS`"),
		prop("subject", func(s *Source) *string { return &s.Subject }, text{what: "a subject", verify: usableSubject},
			"Which of its subjects, with wildcards.").must("`subject: \"events.>\"`"),
		prop("key", func(s *Source) *string { return &s.Key }, text{what: "a tenant key or a template", longest: 256},
			"The tenant key, or {{wildcard(1)}} for what the first * of subject stands for. Absent: unkeyed."),
		prop("priority", func(s *Source) **int { return &s.Priority }, pointer[int]{levelRef{}},
			"The level. Default: the queue's default_priority, also when that changes."),
	},
	finish: finishSource,
	more:   object{"required": []string{"stream", "subject"}},
}

var storageTable = &record[Storage]{fields: []field[Storage]{
	propOr("type", func(s *Storage) *string { return &s.Type }, choice[string]{[]string{"file", "memory"}}, "file",
		"memory loses everything when the server stops. Cannot be changed for a queue that exists."),
	propOr("replicas", func(s *Storage) *int { return &s.Replicas }, replicas{}, 1,
		"Copies in a cluster: 1, 3 or 5."),
	propOr("compression", func(s *Storage) *string { return &s.Compression }, choice[string]{[]string{"s2", "none"}}, "s2",
		"How the server compresses its files."),
}}

var capsuleTable = &record[Capsule]{
	fields: []field[Capsule]{
		prop("name", func(c *Capsule) *string { return &c.Name }, queueName,
			"The capsule's name, by which an app pulls.").must("`name: primary`"),
		prop("queues", func(c *Capsule) *[]string { return &c.Queues }, list[string]{item: queueName, low: 1, high: 1000, ofWhat: "queue names"},
			"The queues, in strict order: while an earlier one has work, no later one is read.").must("the queues to work through, such as `queues: [orders]`"),
		propOr("concurrency", func(c *Capsule) *int { return &c.Concurrency }, integer[int]{1, 100_000}, 10,
			"Messages in flight at most."),
		propOr("lease", func(c *Capsule) *time.Duration { return &c.Lease }, duration{100 * time.Millisecond, day}, 60*time.Second,
			"Time that an app has to settle, or extend, each delivery."),
		propOr("consumer_priority", func(c *Capsule) *int { return &c.ConsumerPriority }, integer[int]{-1_000_000, 1_000_000}, 0,
			"Capsules with a lower one stand by while one with a higher one serves the same queue."),
		propOr("single_active_consumer", func(c *Capsule) *bool { return &c.SingleActiveConsumer }, boolean{}, false,
			"The same on each of the capsule's queues."),
		prop("allow_uids", func(c *Capsule) *[]uint32 { return &c.AllowUIDs }, ids,
			"Of those who may connect, users who may pull from the capsule and look at its queues' messages. With allow_gids empty too, all of them."),
		prop("allow_gids", func(c *Capsule) *[]uint32 { return &c.AllowGIDs }, ids,
			"Of those who may connect, groups whose members may pull from the capsule and look at its queues' messages."),
	},
	more: object{"required": []string{"name", "queues"}},
}

// replicas is 1, 3 or 5: an even number of copies adds no safety.
type replicas struct{}

func (replicas) read(d *decoder, v value, at string, into *int) {
	n, ok := d.wholeNumber(v, at)
	if !ok {
		return
	}
	if n != 1 && n != 3 && n != 5 {
		d.report(at, "is %s, and must be 1, 3 or 5", shorten(v.text))
		return
	}
	*into = int(n)
}

func (replicas) appendJSON(b []byte, v int) []byte { return strconv.AppendInt(b, int64(v), 10) }

func (replicas) schema() object { return orVariable(object{"enum": []int{1, 3, 5}}) }

func (replicas) words() (string, string) { return "whole number", "1, 3 or 5" }

// usableSubject checks a subject filter of NATS.
func usableSubject(s string) string {
	if s == "" || strings.ContainsAny(s, " \t") {
		return "is not a subject: write tokens with dots between, such as events.*.created"
	}
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		switch {
		case t == "":
			return "has an empty token: remove the extra dot"
		case t == ">" && i < len(tokens)-1:
			return "has > before its end: only the last token may be >"
		case len(t) > 1 && strings.ContainsAny(t, "*>"):
			return "has a wildcard inside a token: * and > stand alone"
		}
	}
	return ""
}
