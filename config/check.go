package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// finishQueue fills what depends on the levels and checks what spans several
// settings of one queue.
func finishQueue(d *decoder, at string, q *Queue) {
	levelsAt, defaultAt := join(at, "priority_levels"), join(at, "default_priority")
	if !d.isSet(defaultAt) {
		q.DefaultPriority = (q.Levels - 1) / 2
	}
	resolveLevel(d, q, defaultAt, levelsAt, &q.DefaultPriority)
	if q.DeadLetters.RetryPriority != nil {
		resolveLevel(d, q, join(at, "dead_letters", "retry_priority"), levelsAt, q.DeadLetters.RetryPriority)
	}
	for i := range q.Sources {
		if q.Sources[i].Priority != nil {
			resolveLevel(d, q, join(index(join(at, "sources"), i), "priority"), levelsAt, q.Sources[i].Priority)
		}
	}
	checkSources(d, at, q)
	if q.OrderedKeys && q.ConcurrencyPerKey > 1 {
		d.report(join(at, "concurrency_per_key"), "is %d, and ordered_keys allows one at a time: remove one of the two", q.ConcurrencyPerKey)
	}
	if len(q.FairShare.Weights) > 0 && !q.FairShare.Enabled {
		d.warn(join(at, "fair_share", "weights"), "have no effect while fair_share is off")
	}
	if q.DeadLetters.Evicted && q.Limits.Overflow != OverflowRing {
		d.warn(join(at, "dead_letters", "evicted"), "has no effect without limits.overflow: ring")
	}
}

// finishLimits checks a queue's limits against each other.
func finishLimits(d *decoder, at string, l *Limits) {
	overflow, payload := join(at, "overflow"), join(at, "max_payload")
	limited := l.MaxMessages > 0 || l.MaxBytes > 0 || l.MaxMessagesPerKey > 0
	switch {
	case l.Overflow == OverflowNone && limited:
		d.report(overflow, "is none, and there are limits: write reject or ring, or remove the limits")
	case l.Overflow == OverflowRing && !limited && d.sound(join(at, "max_messages"), join(at, "max_bytes"), join(at, "max_messages_per_key")):
		d.report(overflow, "is ring, and there is no limit to keep: write max_messages, max_bytes or max_messages_per_key")
	}
	if d.sound(payload, join(at, "max_bytes")) && l.MaxBytes > 0 && l.MaxPayload > l.MaxBytes {
		d.report(payload, "is %s, and a message that big would not fit into max_bytes (%s)", formatSize(l.MaxPayload), formatSize(l.MaxBytes))
	}
}

// checkSources compares a queue's sources with each other and with its limits.
func checkSources(d *decoder, at string, q *Queue) {
	for i, s := range q.Sources {
		here := index(join(at, "sources"), i)
		for j, other := range q.Sources[:i] {
			if s.Stream != other.Stream || s.Subject == "" || other.Subject == "" || !SubjectsMeet(s.Subject, other.Subject) {
				continue
			}
			if s.Subject == other.Subject {
				d.report(join(here, "subject"), "is that of sources[%d] too: remove one of the two", j)
			} else {
				d.warn(join(here, "subject"), "%q and %q of sources[%d] can match one message: it is taken twice then", shorten(s.Subject), shorten(other.Subject), j)
			}
		}
	}
	if len(q.Sources) > 0 && q.Limits.MaxMessagesPerKey > 0 {
		d.warn(join(at, "limits", "max_messages_per_key"), "holds up a whole source while one of its keys is at the limit: use max_messages instead")
	}
}

// SubjectsMeet reports whether some subject matches both of these, which may
// have wildcards.
func SubjectsMeet(a, b string) bool {
	at, bt := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(at), len(bt)) {
		switch {
		case at[i] == ">" || bt[i] == ">":
			return true
		case at[i] != bt[i] && at[i] != "*" && bt[i] != "*":
			return false
		}
	}
	return len(at) == len(bt)
}

var (
	// wildcardForm is a key that is taken from a subject.
	wildcardForm = regexp.MustCompile(`^\{\{\s*wildcard\(\s*([0-9]{1,3})\s*\)\s*\}\}$`)
	// templateForm is something between braces, which no key has by accident.
	templateForm = regexp.MustCompile(`\{\{.*\}\}|\{\{|\}\}`)
)

// finishSource checks a key template against the wildcards of its subject.
func finishSource(d *decoder, at string, s *Source) {
	key := join(at, "key")
	if !d.sound(key, join(at, "subject")) {
		return
	}
	stars := 0
	for token := range strings.SplitSeq(s.Subject, ".") {
		if token == "*" {
			stars++
		}
	}
	whole := wildcardForm.FindStringSubmatch(s.Key)
	switch part := templateForm.FindString(s.Key); {
	case whole != nil:
		if n := s.Wildcard(); n < 1 || n > stars {
			d.report(key, "%s counts the * of subject, and %q has %d", s.Key, shorten(s.Subject), stars)
		}
	case part != "" && part != s.Key:
		d.report(key, "has %s among other text: a template is the whole key, such as {{wildcard(1)}}", shorten(part))
	case part != "":
		d.report(key, "has a template that is not known: write {{wildcard(1)}}")
	default:
		if problem := usableKey(s.Key); problem != "" {
			d.report(key, "%s", problem)
		}
	}
}

// checkRing refuses what cannot make room: what goes is taken as a worker would
// take it, which is not possible where workers take one at a time.
func checkRing(d *decoder, at string, q *Queue) {
	overflow := join(at, "limits", "overflow")
	if q.Limits.Overflow != OverflowRing || !d.sound(overflow) {
		return
	}
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"single_active_consumer", q.SingleActiveConsumer},
		{"ordered_keys", q.OrderedKeys},
		{"concurrency_per_key", q.ConcurrencyPerKey > 0},
	} {
		if s.set {
			d.report(overflow, "is ring, which does not go together with %s: write reject, or remove %s", s.name, s.name)
		}
	}
	if q.Limits.MaxMessagesPerKey > 0 && !q.FairShare.Enabled {
		d.warn(join(at, "limits", "max_messages_per_key"), "is kept by refusing, although overflow is ring: only with fair_share can one tenant's oldest message be taken")
	}
}

// finishConfig checks what spans the sections of a file, and fills in what one
// takes from another.
func finishConfig(d *decoder, _ string, c *Config) {
	finishListen(d, "listen", &c.Listen)
	checkNames(d, "queues", len(c.Queues), func(i int) string { return c.Queues[i].Name })
	checkNames(d, "capsules", len(c.Capsules), func(i int) string { return c.Capsules[i].Name })
	checkCapsules(d, c)
	for i := range c.Queues {
		checkRing(d, index("queues", i), &c.Queues[i])
	}
	if !d.isSet("coordination.bucket") {
		c.Coordination.Bucket = defaultBucket
		if c.NATS.Prefix != defaultPrefix {
			c.Coordination.Bucket += "-" + c.NATS.Prefix
		}
	}
	c.Coordination.Replicas = 1
	for i, q := range c.Queues {
		c.Coordination.Replicas = max(c.Coordination.Replicas, q.Storage.Replicas)
		if q.Storage.Replicas > 1 && c.NATS.Embedded != nil {
			d.report(fmt.Sprintf("queues[%d].storage.replicas", i), "is %d, and the embedded server is alone: write 1, or use nats.url", q.Storage.Replicas)
		}
	}
	if !d.isSet("coordination.lease_ttl") && c.Coordination.Replicas > 1 {
		c.Coordination.LeaseTTL = max(c.Coordination.LeaseTTL, 15*time.Second)
	}
	checkLeases(d, c)
}

// checkNames finds names that are used twice.
func checkNames(d *decoder, section string, n int, name func(int) string) {
	first := make(map[string]int, n)
	for i := range n {
		at := index(section, i) + ".name"
		if !d.isSet(at) || !d.sound(at) {
			continue
		}
		if j, twice := first[name(i)]; twice {
			d.report(at, "%s is there twice, first on line %d: names must differ", name(i), d.position(index(section, j)+".name").line)
			continue
		}
		first[name(i)] = i
	}
}

// checkCapsules ties capsules to queues, both ways.
func checkCapsules(d *decoder, c *Config) {
	number := make(map[string]int, len(c.Queues))
	names := make([]string, 0, len(c.Queues))
	for i, q := range c.Queues {
		if _, twice := number[q.Name]; !twice && q.Name != "" {
			number[q.Name] = i
			names = append(names, q.Name)
		}
	}
	read, mistaken := make([]bool, len(c.Queues)), false
	for i, capsule := range c.Capsules {
		listed := make(map[string]bool, len(capsule.Queues))
		for j, name := range capsule.Queues {
			at := index(index("capsules", i)+".queues", j)
			n, known := number[name]
			switch {
			case !d.sound(at) || name == "":
				mistaken = true
			case !known:
				mistaken = true
				d.report(at, "there is no queue %s%s", name, suggestName(name, names))
			case listed[name]:
				d.report(at, "%s is there twice: its place in the order is where it stands first", name)
			default:
				listed[name] = true
				read[n] = true
				c.Queues[n].SingleActiveConsumer = c.Queues[n].SingleActiveConsumer || capsule.SingleActiveConsumer
			}
		}
	}
	if mistaken {
		return // which queues are read is not known
	}
	for i, q := range c.Queues {
		if !read[i] && number[q.Name] == i && q.Name != "" {
			d.warn(index("queues", i)+".name", "no capsule reads %s: what is published to it waits", q.Name)
		}
	}
}

func suggestName(name string, names []string) string {
	if s := suggest(name, names); s != "" {
		return s
	}
	if len(names) == 0 || len(names) > 10 {
		return ": write one that stands under queues"
	}
	return ": write one of " + strings.Join(names, ", ")
}

// checkLeases compares the lease with each queue's ack_wait. A holder that
// dies is noticed by its lease; if its work came back sooner than that, the
// work would wait for a holder that is not there yet.
func checkLeases(d *decoder, c *Config) {
	const lease = "coordination.lease_ttl"
	shortest := Queue{AckWait: math.MaxInt64}
	for _, q := range c.Queues {
		if q.AckWait < shortest.AckWait {
			shortest = q
		}
	}
	if d.isSet(lease) && d.sound(lease) && c.Coordination.LeaseTTL > shortest.AckWait {
		d.report(lease, "is %s, above the ack_wait of queue %s (%s): write less, or raise ack_wait",
			formatDuration(c.Coordination.LeaseTTL), shortest.Name, formatDuration(shortest.AckWait))
		return
	}
	for i, q := range c.Queues {
		at := index("queues", i) + ".ack_wait"
		if q.SingleActiveConsumer && !d.isSet(lease) && d.isSet(at) && d.sound(at) && q.AckWait < c.Coordination.LeaseTTL {
			d.warn(at, "is %s, below coordination.lease_ttl (%s): with a single active consumer its work waits for the lease all the same",
				formatDuration(q.AckWait), formatDuration(c.Coordination.LeaseTTL))
		}
	}
}
