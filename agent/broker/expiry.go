package broker

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// headerExpires says until when a message may be delivered, in RFC 3339. It is fixed when the message is published.
	headerExpires = "Fairlead-Expires"
	// expiryMargin is how much later than that JetStream removes a message by itself. Until then it is in the stream, so that
	// whoever runs it when its time is over can still settle it: this has to be longer than any work.
	expiryMargin = 24 * time.Hour
)

// setExpiry writes until when a message may be delivered.
func setExpiry(h nats.Header, at time.Time) {
	h[headerExpires] = []string{at.UTC().Format(time.RFC3339Nano)}
}

// expiryOf reads it. What a raw publisher wrote and nobody can read does not count.
func expiryOf(value string) time.Time {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}
	}
	return at
}

// setBackstop lets JetStream remove a message that expires at a time, should nobody ask for it. JetStream takes whole
// seconds.
func setBackstop(h nats.Header, expires, now time.Time) {
	left := max(expires.Sub(now), 0) + expiryMargin
	h[headerTTL] = []string{strconv.FormatInt(int64((left+time.Second-1)/time.Second), 10)}
}

// Expired tells whether the message may no longer be delivered.
func (m *Message) Expired(now time.Time) bool { return !m.Expires.IsZero() && !now.Before(m.Expires) }

// expire removes a message that nobody took in time. If that fails it comes again, and is removed then. One of a tenure that
// is over is the next holder's.
func (c *Client) expire(m *Message) {
	if !m.Tenure().Held(time.Now()) {
		return
	}
	c.Finish(m, func(f Finish) {
		if f == Finished {
			c.metrics.Expired.Add(m.Queue, strconv.Itoa(m.Level))
		}
	})
}
