package agent

import (
	"context"
	"slices"
	"time"
)

// A queue that has a single active consumer no more needs no lease; but what an app got in the last tenure can be settled only as long as
// that lasts. So its candidate is set aside, and keeps the lease until the app has settled what it has, or has lost it.

const (
	// asideLook is how often it is looked whether something of a tenure is left.
	asideLook = 20 * time.Millisecond
	// asideRelease is how long the release may take then.
	asideRelease = time.Second
)

// setAsideLocked retires a candidate. Its capsule takes nothing more through it.
func (c *contenders) setAsideLocked(one *contender) {
	one.mu.Lock()
	one.aside = true
	one.capsule.SetTenure(one.queue, nil)
	one.mu.Unlock()
	c.retired = append(c.retired, one)
	c.retire.Go(func() {
		c.await(one)
		ctx, cancel := context.WithTimeout(context.Background(), asideRelease)
		defer cancel()
		_ = one.runner.Stop(ctx) // what is not released, others wait for
		c.mu.Lock()
		defer c.mu.Unlock()
		c.retired = slices.DeleteFunc(c.retired, func(other *contender) bool { return other == one })
	})
}

// await returns when nothing of a candidate's tenure is in an app's hands, or on its way there, and when the agent stops.
func (c *contenders) await(one *contender) {
	look := time.NewTicker(asideLook)
	defer look.Stop()
	for one.capsuleHas() {
		select {
		case <-look.C:
		case <-c.ending: // then all has gone back
			return
		}
	}
}

// capsuleHas tells whether something of the tenure can be settled yet.
func (one *contender) capsuleHas() bool {
	one.mu.Lock()
	tenure := one.tenure
	one.mu.Unlock()
	return tenure != nil && tenure.Held(time.Now()) && one.a.book.HasOf(tenure)
}

func (c *contenders) allRetired() []*contender {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.retired)
}

// tell tells the capsule something, unless the candidate was set aside; then it reports false.
func (one *contender) tell(what func()) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.aside {
		what()
	}
	return !one.aside
}
