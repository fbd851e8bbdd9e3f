package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// Agents are killed at any step of take, deliver and settle, one after the other, and started again: others go on with what
// they had.
func TestAgentsAreKilledUnderLoad(t *testing.T) {
	slow(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed(), 7))
	f := startFleet(t, startNATS(t), 3, 1)
	for range 10 {
		f.goesOn(f.log.Now(), patience)
		time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
		m := f.members[rng.IntN(len(f.members))]
		at := f.log.Now()
		m.kill()
		fair, jobs := f.goesOn(at, clusterTTL+2*time.Second)
		verdict(t, "L1", jobs <= clusterTTL+500*time.Millisecond || fair > time.Second, "jobs on %v after a kill", jobs.Round(time.Millisecond))
		m.crash()
		m.again()
	}
	f.end()
}

// The broker is away for a minute under load: publishers are told, pulls wait, the process is alive, and everything goes on
// alone. Without FAIRLEAD_SLOW the minute has ten seconds.
func TestTheBrokerIsAwayForAMinute(t *testing.T) {
	t.Parallel()
	minute := 10 * time.Second
	if os.Getenv("FAIRLEAD_SLOW") != "" {
		minute = time.Minute
	}
	server := startNATS(t)
	f := startFleet(t, server, 2, 1)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := fleetSettings(server.url, "watched", 1)
	s.probes = address
	watched := startAgent(t, s)
	f.goesOn(f.log.Now(), patience)

	from := f.log.Now()
	server.kill()
	gone := time.Now()
	waited := make(chan string, 1)
	go func() { // a pull that begins in the outage and outlasts it
		all, err := watched.app("pool").tryPull(1, 3*time.Minute)
		waited <- fmt.Sprintf("%d messages, %v", len(all), err)
	}()
	alive := 0
	for time.Since(gone) < minute {
		if status, _, err := probe(address, "/livez"); err != nil || status != http.StatusOK {
			t.Errorf("/livez answers %d (%v) %v after the broker went away", status, err, time.Since(gone))
		}
		alive++
		time.Sleep(500 * time.Millisecond)
	}
	told := f.fair.refusals()
	verdict(t, "told", told[string(api.CodeBroker)] > 0, "publishers were told %v", told)
	for code := range told {
		if code != string(api.CodeBroker) && code != string(api.CodeOutcomeUnknown) {
			t.Errorf("publishers were told %s", code)
		}
	}
	select {
	case got := <-waited:
		t.Errorf("a pull did not wait: %s", got)
	default:
	}
	server.start()
	f.log.Rebuilt(from)
	back := f.log.Now()
	fair, jobs := f.goesOn(back, recovery)
	select {
	case got := <-waited:
		equal(t, "the pull that waited", got, "1 messages, <nil>")
	case <-time.After(patience):
		t.Error("the pull that waited got nothing although work is there")
	}
	watched.end() // what its app did not settle comes again after the acknowledgement wait
	eventually(t, "the backlog is gone, under the same load", recovery, func() bool { return f.backlog() < 20 })
	verdict(t, "L6", true, "%v away, on after %v and %v, no backlog after %v; /livez asked %d times", minute, fair.Round(time.Millisecond),
		jobs.Round(time.Millisecond), (f.log.Now() - back).Round(100*time.Millisecond), alive)
	f.end()
}

// All lane consumers are deleted underneath, again and again: they are made anew, and nothing is lost.
func TestLanesAreDeletedUnderneath(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	f := startFleet(t, server, 2, 1)
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.goesOn(f.log.Now(), patience)
		from := f.log.Now()
		for _, stream := range []string{"FL_Q_fair", "FL_Q_jobs"} {
			st, err := js.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			for name := range st.ConsumerNames(t.Context()).Name() {
				if err := js.DeleteConsumer(t.Context(), stream, name); err == nil {
					injected(t, "deleted", "lane "+name)
				}
			}
		}
		f.log.Rebuilt(from)
		fair, jobs := f.goesOn(f.log.Now(), patience)
		verdict(t, "L2", fair < 2*time.Second && jobs < 2*time.Second+clusterTTL, "on after %v and %v", fair.Round(time.Millisecond), jobs.Round(time.Millisecond))
	}
	f.end()
}

// A queue's stream is deleted underneath: it is told, nothing is invented, and work goes on when setup has made it again.
func TestTheStreamIsDeletedUnderneath(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	a.batch("jobs", notes(100, "gone", note{})...)
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	injected(t, "deleted", "stream FL_Q_jobs")
	if err := js.DeleteStream(t.Context(), "FL_Q_jobs"); err != nil {
		t.Fatal(err)
	}
	app := a.app("main")
	if _, refused := a.tryPublish("jobs", "x"); refused == nil {
		t.Error("a publish was accepted although there is no stream")
	}
	if got, _ := app.tryPull(10, 2*time.Second); len(got) > 0 {
		t.Errorf("%q came out of a stream that is gone", data(got))
	}
	eventually(t, "the log tells it", patience, func() bool { return strings.Contains(a.errs.String(), "stream does not exist") })
	if lines := strings.Count(a.errs.String(), "\n"); lines > 100 {
		t.Errorf("the log has %d lines: it does not back off", lines)
	}
	if _, stderr, code := command(t, nil, "setup", "--config", a.dir+"/fairlead.yaml"); code != 0 {
		t.Fatalf("setup: exit code %d: %s", code, stderr)
	}
	eventually(t, "publishing works again", patience, func() bool { _, refused := a.tryPublish("jobs", "new"); return refused == nil })
	equal(t, "what comes", string(app.take(1, 1)[0].Payload()), "new")
	app.empty()
	verdict(t, "told", true, "publishers and the log; nothing invented, work on after setup")
}

// The server's store is full: publishers are told, acks go on, and room that they make is used, without anybody's help.
func TestTheStoreIsFull(t *testing.T) {
	t.Parallel()
	server := startNATSWith(t, "jetstream {max_file_store: 4MB, max_memory_store: 64MB}\n")
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	payload := strings.Repeat("x", 64<<10)
	stored := 0
	for ; stored < 1000; stored++ {
		_, refused := a.tryPublish("jobs", payload)
		if refused != nil {
			injected(t, "store full", string(refused.Code))
			if refused.Code != api.CodeBroker || refused.Reason != "store_full" || !strings.Contains(refused.Message, "store is full") || strings.Contains(refused.Message, "cannot be reached") {
				t.Errorf("publishers are told %v, reason %q", refused, refused.Reason)
			}
			t.Logf("refused after %d with %v", stored, refused)
			break
		}
	}
	if stored < 10 || stored >= 100 {
		t.Fatalf("%d messages of 64 KiB were stored in 4 MB", stored)
	}
	app := a.app("main")
	equal(t, "taken and acked from a full store", len(app.take(stored, 8)), stored)
	eventually(t, "there is room again", patience, func() bool { _, refused := a.tryPublish("jobs", payload); return refused == nil })
	equal(t, "what comes", len(app.take(1, 1)), 1)
	app.empty()
	verdict(t, "S5", true, "%d stored until the store was full, all of them delivered; publishing went on by itself", stored)
}

// A network that is slow, and breaks now and then, loses nothing.
func TestASlowNetworkThatBreaks(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	f := startFleet(t, server, 2, 1)
	for range 3 {
		f.goesOn(f.log.Now(), patience)
		from := f.log.Now()
		for _, l := range f.links {
			l.set(linkState{delay: 30 * time.Millisecond})
		}
		f.goesOn(f.log.Now(), patience)
		for _, l := range f.links {
			l.reset()
		}
		f.goesOn(f.log.Now(), patience)
		for _, l := range f.links {
			l.change(linkState{})
		}
		f.log.Rebuilt(from)
	}
	f.end()
}

// An app process is stopped: its delivery's lease ends and the message goes to another app, which is not held up before.
func TestAStoppedAppsWorkMovesOn(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: "queues: [{name: jobs}]\ncapsules: [{name: main, queues: [jobs], concurrency: 10, lease: 4s}]\n"})
	a.publish("jobs", "held")
	work := start(t, "app work", exec.Command(fairlead, "work", "main", "--concurrency", "1", "--", "sleep", "600"), a.env()...)
	eventually(t, "the message is in flight", patience, func() bool { return a.capsule("main").InFlight == 1 })
	work.signal(syscall.SIGSTOP)
	stopped := ran()
	a.publish("jobs", "other")
	equal(t, "what another app gets meanwhile", string(a.app("main").take(1, 1)[0].Payload()), "other")
	if took := ran() - stopped; took > 2*time.Second {
		t.Errorf("another app waited %v", took)
	}
	d := a.app("main").pull(1, patience)
	took := ran() - stopped
	if len(d) != 1 || string(d[0].Payload()) != "held" || d[0].Attempt != 2 {
		t.Fatalf("%+v", d)
	}
	verdict(t, "S6", took < 6*time.Second, "moved on %v after the stop, with a lease of 4 s", took.Round(time.Millisecond))
	equal(t, "ack", a.say(d[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	work.signal(syscall.SIGCONT)
}

// A message that kills its app each time ends in the dead letters; what stands behind it does not wait for that.
func TestAMessageThatKillsItsApp(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := startAgent(t, settings{id: "a", nats: server.url, yaml: strings.Replace(threeAttempts, "[200ms, 400ms]", "[200ms]", 1)})
	a.publish("jobs", "poison")
	deaths := 0
	for ; len(a.dead("jobs")) == 0; deaths++ {
		if deaths == 10 {
			t.Fatal("ten apps died of it, and it is no dead letter")
		}
		died := make(chan int, 1)
		app := a.work(log, habits{handle: func(ctx context.Context, d api.Delivery) api.Settlement {
			died <- d.Attempt
			<-ctx.Done()
			return api.Settlement{}
		}})
		select {
		case got := <-died:
			if got > 3 { // one that dies before the agent knows that it has the message does not count
				t.Errorf("attempt %d of 3", got)
			}
			time.Sleep(50 * time.Millisecond) // its life
		case <-time.After(2 * time.Second): // it is buried, or about to be
		}
		app.crash()
	}
	a.publish("jobs", "behind it")
	equal(t, "what still works", string(a.app("main").take(1, 1)[0].Payload()), "behind it")
	dead := a.awaitDead("jobs", 1)
	verdict(t, "S7", dead[0].Attempts == 3, "one dead letter after %d attempts, %d apps died", dead[0].Attempts, deaths)
}

// The server restarts while messages back off: attempts and delays are kept.
func TestBackoffsSurviveTheServer(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: strings.Replace(threeLevels, "name: jobs", "name: jobs, retry: {max_attempts: 0}", 1)})
	a.batch("jobs", notes(20, "m", note{})...)
	app := a.app("main")
	said := time.Now()
	for _, d := range app.hold(20) {
		equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: "6s"}), api.StatusOK)
	}
	server.kill()
	server.start()
	soonest := time.Duration(0)
	for n := 0; n < 20; {
		got, err := a.app("main").tryPull(20, time.Second)
		if err != nil {
			continue // until NATS is back
		}
		for _, d := range got {
			if soonest == 0 {
				soonest = time.Since(said)
			}
			equal(t, "attempt of "+string(d.Payload()), d.Attempt, 2)
			equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
			n++
		}
		if time.Since(said) > 2*patience {
			t.Fatalf("%d of 20 came", n)
		}
	}
	verdict(t, "attempts", soonest >= 6*time.Second, "20 of 20 at attempt 2, the first %v after the nacks with 6 s", soonest.Round(time.Millisecond))
}
