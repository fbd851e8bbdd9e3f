package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// Request is one pull of an app.
type Request struct {
	// Max is the credit: the most messages the answer may hold. At least 1.
	Max int
	// Wait is how long to wait for the first message. 0 is one full round.
	Wait time.Duration
	// After, unless nil, is closed when the settlements that came with the pull are done. Only a take that lacks a slot
	// waits for it.
	After <-chan struct{}
}

// pull is a request that is being served.
type pull struct {
	max      int
	got      []*broker.Message
	arrived  time.Time
	deadline time.Time
	oneRound bool // Wait was 0
	first    bool // it does not wait, and no app was there before it: see claiming
	settled  bool // the settlements that came with it are done
	ended    bool
	rounds   int // that it has been through with messages in hand
	// answer gets the outcome, once. It must not block.
	answer func([]*broker.Message, error)
}

func (p *pull) want() int { return p.max - len(p.got) }

// end is when the pull is answered with nothing.
func (p *pull) end(draining bool) time.Time {
	if p.oneRound && !draining {
		return p.arrived.Add(oneRoundLimit)
	}
	return p.deadline
}

// end answers the pull and takes it out of the line.
func (c *core) end(p *pull, err error) {
	if p.ended {
		return
	}
	p.ended = true
	for i, q := range c.pulls {
		if q == p {
			c.pulls = append(c.pulls[:i], c.pulls[i+1:]...)
			break
		}
	}
	if len(p.got) > 0 {
		err = nil
	}
	p.answer(p.got, err)
}

// credit is how many messages may be taken now.
func (c *core) credit() int {
	free := c.free()
	credit := 0
	for _, p := range c.pulls {
		want := p.want()
		if !p.settled && free-credit < want {
			continue // its own settlements are about to free the slots it lacks
		}
		credit += want
	}
	return min(credit, free)
}

// free is how many slots are not in use.
func (c *core) free() int { return max(c.concurrency-c.inFlight, 0) }

// assign gives messages, in order, to the pulls in the order in which they came. It returns what nobody wanted. While the
// capsule drains that is all: what was asked for before goes back.
func (c *core) assign(messages []*broker.Message) []*broker.Message {
	for len(messages) > 0 && !c.draining {
		p := c.wanting()
		if p == nil || c.free() == 0 {
			return messages
		}
		n := min(p.want(), len(messages), c.free())
		p.got = append(p.got, messages[:n]...)
		messages = messages[n:]
		c.inFlight += n
		for _, m := range p.got[len(p.got)-n:] {
			c.out[m.Queue]++
		}
		c.delivered += uint64(n)
		if p.want() == 0 {
			c.end(p, nil)
		}
	}
	return messages
}

// wanting is the first pull that still wants messages.
func (c *core) wanting() *pull {
	for _, p := range c.pulls {
		if p.want() > 0 && (p.settled || c.free() >= p.want()) {
			return p
		}
	}
	// Nobody is entitled before the settlements; rather too early than returned.
	for _, p := range c.pulls {
		if p.want() > 0 {
			return p
		}
	}
	return nil
}
