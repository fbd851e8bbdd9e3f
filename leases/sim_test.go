package leases

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run one seed of TestStorm, and print its history")
	simSeeds = flag.Int("sim.seeds", 10_000, "how many seeds TestStorm runs")
)

// stormWorld is a minute of everything, then calm.
func stormWorld(seed uint64, flaw control, keep bool) *world {
	return badWorld(seed, flaw, keep, storm)
}

func badWorld(seed uint64, flaw control, keep bool, bad weather) *world {
	ttls := []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second}
	if seed%2 == 0 {
		// Candidates of several TTLs. Nothing is deleted then: who has not seen a holder cannot know how long its TTL was.
		ttls[1], ttls[2] = 15*time.Second, 5*time.Second
		bad.bucket, bad.remove = 0, 0
	}
	w := newWorld(seed, ttls[:2+seed%3]...)
	w.keep = keep
	for i, a := range w.agents {
		a.flaw = flaw
		a.priority = w.rnd.IntN(3) - 1
		a.wanted = false
		w.after(int64(i)*int64(w.rnd.IntN(3e9)), func() { a.want(true) })
	}
	w.now, w.calm = bad, 63e9
	w.after(2e9, w.chances)
	w.run(60 * time.Second)
	// Calm, but for watches that fell silent. What is under way takes up to 6 seconds.
	w.now = fair
	w.store.recreate()
	w.run(66 * time.Second)
	w.demand(15*time.Second + time.Second)
	w.run(100 * time.Second)
	return w
}

func TestStorm(t *testing.T) {
	if *simSeed != 0 {
		w := stormWorld(*simSeed, right, true)
		t.Logf("%s\n%s", strings.Join(w.history, "\n"), w.failure)
		if w.failure != "" {
			t.Fail()
		}
		return
	}
	seeds := *simSeeds
	if testing.Short() {
		seeds = min(seeds, 500)
	}
	const shards = 4
	for shard := range shards {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			begun, ends := 0, map[Reason]int{}
			for seed := uint64(1 + shard); seed <= uint64(seeds); seed += shards {
				w := stormWorld(seed, right, false)
				if w.failure != "" {
					t.Fatalf("seed %d: %s (run with -sim.seed=%d)", seed, w.failure, seed)
				}
				begun += w.begun
				for why, n := range w.ends {
					ends[why] += n
				}
			}
			for _, why := range []Reason{Expired, Vanished, HandedOver, Released} {
				if ends[why] == 0 && (why != Vanished || shard%2 == 0) {
					t.Errorf("no tenure was %s: the simulation does not get there", why)
				}
			}
			t.Logf("%d tenures; ends %v", begun, ends)
		})
	}
}

// TestStormControls breaks a rule: the same checks must notice.
func TestStormControls(t *testing.T) {
	slow := weather{slow: 300, pause: 60}
	for _, c := range []struct {
		name    string
		flaw    control
		weather weather
	}{
		{"no local deadline", noDeadline, storm},
		{"trust from the time of the answer", trustFromNow, slow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 500; seed++ {
				if w := badWorld(seed, right, false, c.weather); w.failure != "" {
					t.Fatalf("seed %d without the flaw: %s", seed, w.failure)
				}
				w := badWorld(seed, c.flaw, false, c.weather)
				if strings.Contains(w.failure, ": S3: ") {
					t.Logf("seed %d: %s", seed, w.failure)
					return
				}
			}
			t.Error("500 seeds have not shown that two hold the lease at once")
		})
	}
}

// calmWorld has n agents that want the lease; it returns when one holds it.
func calmWorld(t *testing.T, seed uint64, n int, ttl time.Duration) (*world, *simAgent) {
	t.Helper()
	w := newWorld(seed, slices.Repeat([]time.Duration{ttl}, n)...)
	for _, a := range w.agents {
		w.after(int64(w.rnd.IntN(500e6)), func() { a.want(true) })
	}
	w.run(3*time.Second + time.Duration(w.rnd.IntN(4e9)))
	return w, holder(t, w)
}

func holder(t *testing.T, w *world) *simAgent {
	t.Helper()
	if w.failure != "" {
		t.Fatal(w.failure)
	}
	for _, a := range w.agents {
		if a.fence != 0 && a.until > w.at && !a.dead {
			return a
		}
	}
	t.Fatalf("nobody holds the lease at %s", time.Duration(w.at))
	return nil
}

func TestTakeoverTimes(t *testing.T) {
	const ttl = 10 * time.Second
	type ending func(w *world, a *simAgent)
	var (
		stop ending = func(w *world, a *simAgent) { a.want(false) }
		kill ending = func(w *world, a *simAgent) { w.kill(a, int64(time.Hour)) }
	)
	for _, c := range []struct {
		name    string
		end     ending
		silent  bool
		flaw    control
		allowed time.Duration
	}{
		{"clean stop", stop, false, right, 250 * time.Millisecond},
		{"clean stop, silent watches", stop, true, right, 2400 * time.Millisecond},
		{"killed", kill, false, right, ttl + 500*time.Millisecond},
		{"killed, silent watches", kill, true, right, ttl + 500*time.Millisecond},
		{"killed, left to the TTL of the key", kill, false, storeTTL, ttl + 500*time.Millisecond},
		{"killed, silent watches, no poll", kill, true, watchOnly, ttl + 500*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worst, least := time.Duration(0), time.Hour
			for seed := uint64(1); seed <= 500; seed++ {
				w, first := calmWorld(t, seed, 2+int(seed%4), ttl)
				for _, a := range w.agents {
					a.priority = w.rnd.IntN(3)
					a.clock.drift = 0 // the bound is in one clock's time
					a.silent, a.flaw = c.silent, c.flaw
				}
				w.rosters()
				w.run(time.Duration(w.at) + 100*time.Millisecond + time.Duration(w.rnd.IntN(4e9)))
				if holder(t, w) != first {
					continue // it had just been handed over
				}
				w.demand(c.allowed)
				c.end(w, first)
				w.run(time.Duration(w.at) + ttl + 2*time.Second)
				if c.flaw != right && strings.Contains(w.failure, ": L4: ") {
					return // as it should
				}
				if w.failure != "" {
					t.Fatalf("seed %d: %s", seed, w.failure)
				}
				if next := holder(t, w); next == first {
					t.Fatalf("seed %d: nobody took over", seed)
				}
				worst, least = max(worst, time.Duration(w.worst)), min(least, time.Duration(w.worst))
			}
			t.Logf("takeover after %s to %s", least, worst)
			if c.flaw != right {
				t.Error("nobody has noticed the flaw")
			}
		})
	}
}

// TestSpite: timeouts, writes that were carried out unnoticed, false conflicts and old reads never cost a holder its
// tenure while anything gets through (L5).
func TestSpite(t *testing.T) {
	expired := 0
	for seed := uint64(1); seed <= 500; seed++ {
		w, first := calmWorld(t, seed, 3, 10*time.Second)
		begun := w.begun
		w.now = spite
		w.run(5 * time.Minute)
		w.now = fair
		if w.failure != "" {
			t.Fatalf("seed %d: %s", seed, w.failure)
		}
		if n := w.ends[Expired]; n > 0 { // four renewals in a row did not get through: that is no forfeit
			expired += n
			continue
		}
		if w.begun != begun || holder(t, w) != first {
			t.Fatalf("seed %d: the lease changed hands: %v", seed, w.ends)
		}
	}
	t.Logf("trust ran out %d times in %d hours", expired, 500*5/60)
	if expired > 50 {
		t.Errorf("trust ran out %d times: the holder does not try hard enough, or the weather is no test", expired)
	}
}

// TestHighestHolds: the lease goes to the highest candidate that stays, once, and comes back when that one leaves.
func TestHighestHolds(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		w, _ := calmWorld(t, seed, 4, 10*time.Second)
		order := w.rnd.Perm(4)
		for i, a := range w.agents {
			a.priority = order[i] - 2 // also zero and negative ones
		}
		w.rosters()
		w.run(20 * time.Second)
		w.demand(250 * time.Millisecond) // handing over leaves the lease to nobody for a moment only
		for rank := 3; rank >= 0; rank-- {
			w.run(time.Duration(w.at) + 10*time.Second)
			top := holder(t, w)
			if top.priority != rank-2 {
				t.Fatalf("seed %d: priority %d holds instead of %d", seed, top.priority, rank-2)
			}
			if w.begun > 7 {
				t.Fatalf("seed %d: %d tenures", seed, w.begun)
			}
			if rank > 0 {
				top.want(false)
			}
		}
	}
}

// TestNoSuccessor: a higher candidate that never takes the lease costs less and less.
func TestNoSuccessor(t *testing.T) {
	w, first := calmWorld(t, 1, 2, 10*time.Second)
	other := w.agents[1-first.index]
	other.want(false)
	w.run(10 * time.Second)
	first = holder(t, w)
	ghost := func(now time.Time) { first.m.Peers(now, 0, []Peer{{"ghost", 5}}) }
	w.demand(250 * time.Millisecond)
	w.tell(first, 0, ghost)
	w.run(10 * time.Minute)
	if w.failure != "" {
		t.Fatal(w.failure)
	}
	if n := w.ends[HandedOver]; n < 3 || n > 7 {
		t.Errorf("handed over %d times in ten minutes", n)
	}
	if holder(t, w) != first {
		t.Error("the only candidate does not hold the lease")
	}
}
