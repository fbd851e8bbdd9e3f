package integration

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

const staleAfter = 2 * time.Second

func roleSettings(server *natsServer, id string, priority int) settings {
	return settings{id: id, nats: server.url, yaml: fmt.Sprintf(`
coordination: {heartbeat_interval: 200ms, stale_after: %v}
queues: [{name: jobs, ack_wait: 1s}]
capsules: [{name: main, queues: [jobs], concurrency: 10, consumer_priority: %d}]
`, staleAfter, priority)}
}

// busy has an app work at the agent until the agent is gone. It counts what the app acked.
func (a *agent) busy() *atomic.Int64 {
	handled := new(atomic.Int64)
	go func() {
		app := a.app("main")
		for {
			got, err := app.tryPull(1, time.Second)
			if err != nil || app.state == api.StateDraining && len(got) == 0 {
				return
			}
			app.ack(got...)
			handled.Add(int64(len(got)))
		}
	}()
	return handled
}

func (a *agent) backsOff() bool { return a.capsule("main").Queues[0].BacksOff }

// handOut publishes n messages on via, one after the other, each when the one before was handled by any of the counters.
func handOut(t *testing.T, via *agent, n int, counters ...*atomic.Int64) {
	t.Helper()
	sum := func() (all int64) {
		for _, c := range counters {
			all += c.Load()
		}
		return all
	}
	for range n {
		before := sum()
		via.publish("jobs", "m")
		eventually(t, "the message is handled", patience, func() bool { return sum() > before })
	}
}

// The capsule with the higher consumer priority has the work; the other has it as soon as that one is gone, however it
// went, and gives it up again when it is back.
func TestTheStandbyTakesOverAndBacksOffAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ primary, standby int }{{10, -1}, {0, -3}} {
		t.Run(fmt.Sprintf("priorities %d and %d", c.primary, c.standby), func(t *testing.T) {
			t.Parallel()
			takeOverAndBack(t, c.primary, c.standby)
		})
	}
}

func takeOverAndBack(t *testing.T, high, low int) {
	server := startNATS(t)
	primary := startAgent(t, roleSettings(server, "primary", high))
	standby := startAgent(t, roleSettings(server, "standby", low))
	first, second := primary.busy(), standby.busy()
	eventually(t, "the standby backs off", patience, standby.backsOff)
	if primary.backsOff() {
		t.Error("the primary backs off for the standby")
	}
	had := second.Load()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for range 300 { // about a hundred a second
		<-pace.C
		handOut(t, standby, 1, first, second)
	}
	if got := second.Load() - had; got > 6 {
		t.Errorf("the standby handled %d of 300 while the primary kept pace", got)
	}

	primary.stop()
	stopped := ran()
	eventually(t, "the standby is at full speed after a clean stop", time.Second, func() bool { return !standby.backsOff() })
	had = second.Load()
	handOut(t, standby, 20, second)
	if took := ran() - stopped; took > 3*time.Second {
		t.Errorf("the standby needed %v for 20 messages after the primary stopped", took)
	}
	equal(t, "handled by the standby alone", second.Load()-had, 20)

	primary = startAgent(t, roleSettings(server, "primary", high))
	first = primary.busy()
	eventually(t, "the standby backs off again", patience, standby.backsOff)
	handOut(t, standby, 20, first, second)
	if first.Load() == 0 {
		t.Error("the primary is back and has no work")
	}

	// A standby that stands still itself hears late of the last sign of life: two of three have to be in time.
	const promise = staleAfter + time.Second
	var rounds []time.Duration
	for {
		primary.kill()
		killed := ran()
		eventually(t, "the standby is at full speed after a kill -9", patience, func() bool { return !standby.backsOff() })
		rounds = append(rounds, ran()-killed)
		handOut(t, standby, 20, second)
		if len(rounds) == 3 || len(rounds) == 2 && slices.Max(rounds) <= promise {
			break
		}
		primary = startAgent(t, roleSettings(server, "primary", high))
		primary.busy()
		eventually(t, "the standby backs off again", patience, standby.backsOff)
	}
	within(t, "from the kill to full speed", promise, rounds)
}

// A primary whose app is down holds nobody back.
func TestAPrimaryWithoutAnAppIsNoPrimary(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	primary := startAgent(t, roleSettings(server, "primary", 10))
	standby := startAgent(t, roleSettings(server, "standby", 0))
	second := standby.busy()
	handOut(t, standby, 20, second)
	if standby.backsOff() {
		t.Error("the standby backs off for a capsule that no app uses")
	}
	primary.app("main").pull(1, 0) // an app looks in, and is gone again
	eventually(t, "the standby backs off", patience, standby.backsOff)
	eventually(t, "the standby is at full speed when the app is gone", 6*time.Second, func() bool { return !standby.backsOff() })
}
