package delivery

import (
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// Remember is how long the book knows what became of a token, at least. After that the token is unknown.
const Remember = 10 * time.Minute

const (
	// chunkIDs is how many tokens share one chunk of memory: 2 KiB.
	chunkIDs = 8192
	// chunkSpan is how long a chunk takes new tokens. It bounds how much longer than Remember a token of a quiet agent is
	// known.
	chunkSpan = 15 * time.Second
)

// fate is what became of a delivery. Two bits.
type fate uint64

const (
	fateUnknown fate = iota // not issued, or not over
	fateSettled
	fateExpired
	fateLeaseLost
)

// status returns how a settlement that comes too late is answered.
func (f fate) status() api.Status {
	switch f {
	case fateSettled:
		return api.StatusAlreadySettled
	case fateExpired:
		return api.StatusExpired
	case fateLeaseLost:
		return api.StatusLeaseLost
	}
	return api.StatusUnknown
}

// memory issues the numbers of deliveries and remembers what became of them. Not safe for several goroutines.
//
// Numbers are cut into chunks of consecutive ones, so that a fate needs no key of its own. A chunk is forgotten as a
// whole, Remember after the last of its deliveries was over: a chunk in which one delivery goes on for hours is kept,
// and its 2 KiB with it.
type memory struct {
	chunks map[uint64]*chunk // by number / chunkIDs
	next   uint64            // the next number to issue
	opened instant           // when the chunk of next took its first number
}

type chunk struct {
	fates [chunkIDs / 32]uint64
	open  int     // issued and not over
	last  instant // when the latest of them was over
}

func newMemory() memory {
	// The first number is the start of a chunk and not 0, so that no token's digits begin with 0.
	return memory{chunks: make(map[uint64]*chunk), next: chunkIDs}
}

// issue returns a number that was never issued before.
func (m *memory) issue(now instant) uint64 {
	c := m.chunks[m.next/chunkIDs]
	if c != nil && now-m.opened >= chunkSpan {
		m.next = (m.next/chunkIDs + 1) * chunkIDs
		c = nil
	}
	if c == nil {
		c = &chunk{last: now}
		m.chunks[m.next/chunkIDs] = c
		m.opened = now
	}
	c.open++
	id := m.next
	m.next++
	return id
}

// over notes what became of an issued delivery. It is called once per number.
func (m *memory) over(id uint64, f fate, now instant) {
	c := m.chunks[id/chunkIDs]
	n := id % chunkIDs
	c.fates[n/32] |= uint64(f) << (2 * (n % 32))
	c.open--
	c.last = now
}

// fate returns what became of a delivery, as long as it is remembered.
func (m *memory) fate(id uint64, now instant) fate {
	c := m.chunks[id/chunkIDs]
	if c == nil || c.faded(now) {
		return fateUnknown
	}
	n := id % chunkIDs
	return fate(c.fates[n/32] >> (2 * (n % 32)) & 3)
}

func (c *chunk) faded(now instant) bool { return c.open == 0 && now-c.last >= Remember }

// sweep frees the chunks whose time is over. Their order does not matter.
func (m *memory) sweep(now instant) {
	for k, c := range m.chunks {
		if c.faded(now) {
			delete(m.chunks, k)
		}
	}
}
