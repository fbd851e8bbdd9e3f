package socket

import (
	"cmp"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

const (
	// maxDelay is how far ahead a message can be delayed: a year.
	maxDelay = 8760 * time.Hour
	// maxTTL is the longest time to live: ten years.
	maxTTL = 87_600 * time.Hour
)

// timing is what a publisher says of when a message is to be delivered; "" is not given.
type timing struct{ delay, at, ttl string }

// read sets when the message may be delivered, and until when, for a publish at this time. A time that has passed is now.
func (t timing) read(p *broker.Publication, q *config.Queue, now time.Time) error {
	if t.delay != "" && t.at != "" {
		return badRequest("a delay and a time are given: use one of them")
	}
	var wait time.Duration
	switch {
	case t.delay != "":
		d, err := time.ParseDuration(t.delay)
		if err != nil || d < 0 || d > maxDelay {
			return badRequest("delay %.32q: use a duration with a unit, such as 30s, from 0s to 8760h (a year)", t.delay)
		}
		wait, p.At = d, now.Add(d)
	case t.at != "":
		at, err := time.Parse(time.RFC3339, t.at)
		if err != nil {
			return badRequest("time %.64q: use RFC 3339, such as 2026-11-29T12:00:00Z", t.at)
		}
		if at.After(now.Add(maxDelay)) {
			return badRequest("time %.64q: use one within a year", t.at)
		}
		wait, p.At = at.Sub(now), at
	}
	if t.ttl != "" {
		d, err := time.ParseDuration(t.ttl)
		if err != nil || d <= 0 || d > maxTTL {
			return badRequest("TTL %.32q: use a duration with a unit, such as 30s, above 0s and up to 87600h (ten years)", t.ttl)
		}
		p.TTL = d
	}
	// It counts from the publish, so that such a message would expire before anybody could get it.
	if ttl := cmp.Or(p.TTL, q.TTL); ttl > 0 && wait >= ttl {
		return badRequest("the message would expire before it is due: its TTL is %v from now, and it is due in %v; use a longer TTL, or an earlier time", ttl, wait.Round(time.Millisecond))
	}
	return nil
}
