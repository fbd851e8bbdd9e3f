package broker

import (
	"strconv"
	"time"
)

// Tenure is one time of being the single active consumer of a queue. The lanes of each tenure are its own, so that a new
// one begins with the oldest unfinished message, and nothing that an earlier holder still has in its hands can hold it up.
// A nil Tenure is that of a queue that needs none: always trusted, always held. It is safe for several goroutines.
type Tenure struct {
	fence      uint64
	grant      Grant
	succession succession
}

// Grant says what may be done now. It answers with the fence of the tenure that it speaks of. It must be safe for several
// goroutines, and fast: it is asked for every message.
type Grant interface {
	// Trusted tells whether messages may be handed out.
	Trusted(now time.Time) (fence uint64, ok bool)
	// Held tells whether messages that were handed out may be settled.
	Held(now time.Time) (fence uint64, ok bool)
	// ValidUntil is when trust in the present tenure ends, as things stand: each renewal moves it.
	ValidUntil() time.Time
}

// NewTenure returns the tenure with this fence, as long as the grant says so.
func NewTenure(fence uint64, g Grant) *Tenure { return &Tenure{fence: fence, grant: g} }

// Fence is the number of the tenure, above 0; 0 without one.
func (t *Tenure) Fence() uint64 {
	if t == nil {
		return 0
	}
	return t.fence
}

// Trusted tells whether messages of the tenure may be handed out.
func (t *Tenure) Trusted(now time.Time) bool {
	if t == nil {
		return true
	}
	fence, ok := t.grant.Trusted(now)
	return ok && fence == t.fence
}

// Held tells whether messages of the tenure may be settled.
func (t *Tenure) Held(now time.Time) bool {
	if t == nil {
		return true
	}
	fence, ok := t.grant.Held(now)
	return ok && fence == t.fence
}

// Until is when trust in the tenure ends, as things stand: each renewal moves it. It has passed when the tenure is over. A nil
// tenure has no end, and must not be asked.
func (t *Tenure) Until(now time.Time) time.Time {
	until := t.grant.ValidUntil() // before the fence: should that be the next tenure's, this one is over
	if !t.Held(now) {
		return time.Time{}
	}
	return until
}

// token is the tenure's part of the names of its lanes; "" without one.
func (t *Tenure) token() string {
	if t == nil {
		return ""
	}
	return strconv.FormatUint(t.fence, 36) + "-"
}

// Tenure is the one that the message was taken in; nil for a queue that needs none.
func (m *Message) Tenure() *Tenure {
	if m.Lane == nil {
		return nil
	}
	return m.Lane.Layout.Tenure
}

// Fence is the number of the tenure that the message was taken in; 0 for a queue without a single active consumer.
func (m *Message) Fence() uint64 { return m.Tenure().Fence() }

// held tells whether the message may be settled now: its tenure lasts.
func (m *Message) held() bool { return m.Tenure().Held(time.Now()) }
