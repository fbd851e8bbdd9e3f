package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

func controlSettings(server *natsServer, id, dir string) settings {
	return settings{id: id, nats: server.url, dir: dir, yaml: `
coordination: {heartbeat_interval: 200ms, stale_after: 2s}
queues:
  - {name: jobs, priority_levels: 3, fair_share: {enabled: true, weights: {configured: 2}}}
  - {name: other}
capsules: [{name: main, queues: [jobs, other], concurrency: 400}]
`}
}

// operate asks the admin socket.
func (a *agent) operate(method, path, body string, v any) *api.Error {
	a.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.admin)
	}}}
	defer client.CloseIdleConnections()
	answer, text, err := a.call(client, method, path, []byte(body))
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	if answer.StatusCode != http.StatusOK {
		return a.refusal(answer, text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		a.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return nil
}

func (a *agent) paused() bool { return a.capsule("main").Queues[0].Paused }

// must runs a command against a that has to succeed.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	stdout, stderr, code := command(a.t, a, args...)
	if code != 0 {
		a.t.Fatalf("fairlead %q: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

// One agent is told, all stop taking; what is in hand is finished, the other queue is worked on, publishing goes on; kill -9
// of both agents and of the server changes nothing; and when it is resumed there is work at once.
func TestAPauseHoldsForAllAgents(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	one, two := startAgent(t, controlSettings(server, "one", "")), startAgent(t, controlSettings(server, "two", ""))
	one.batch("jobs", notes(20, "m", note{Key: "acme"})...)
	held := one.app("main").hold(2)

	equal(t, "pause prints", one.must("pause", "jobs"), "queue jobs is paused\n")
	equal(t, "pulled through the agent that was told", len(one.app("main").pull(5, 0)), 0)
	eventually(t, "the other agent follows", time.Second, two.paused)
	one.publish("jobs", "m20", api.HeaderKey, "acme")
	two.publish("other", "elsewhere")
	for _, a := range []*agent{one, two} {
		for _, d := range a.app("main").pull(5, 300*time.Millisecond) {
			equal(t, "pulled from", d.Queue, "other")
			a.say(d, api.Settlement{Result: api.Ack})
		}
	}
	for i, d := range held {
		equal(t, fmt.Sprintf("ack %d of what was in hand", i), one.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}
	for _, a := range []*agent{one, two} {
		eventually(t, "the log says who paused the queue", patience, func() bool {
			text := a.errs.String()
			return strings.Contains(text, "the queue is paused") && strings.Contains(text, "through_agent=one")
		})
	}
	q := two.queue("jobs")
	if q.Controls.Paused == nil || q.Controls.Paused.Agent != "one" || !q.Paused {
		t.Errorf("the queue shows %+v", q.Controls)
	}
	if out := two.must("status"); !strings.Contains(out, "jobs (paused)") {
		t.Errorf("status shows\n%s", out)
	}

	server.kill()
	one.kill()
	two.signal(syscall.SIGKILL)
	two.wait(patience)
	server.start()
	one, two = startAgent(t, controlSettings(server, "one", one.dir)), startAgent(t, controlSettings(server, "two", two.dir))
	for _, a := range []*agent{one, two} {
		equal(t, "pulled after everything was restarted", len(a.app("main").pull(5, 500*time.Millisecond)), 0)
		eventually(t, "it is paused after everything was restarted", patience, a.paused)
	}

	two.must("resume", "jobs")
	eventually(t, "the other agent follows", time.Second, func() bool { return !one.paused() })
	app := one.app("main")
	equal(t, "first", string(app.take(19, 7)[0].Payload()), "m2")
	app.empty()
}

// A pull that waits on a paused queue gets its work as soon as the queue is resumed, through whichever agent.
func TestAResumeWakesPullsThatWait(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	one, two := startAgent(t, controlSettings(server, "one", "")), startAgent(t, controlSettings(server, "two", ""))
	one.must("pause", "jobs")
	eventually(t, "the other agent follows", time.Second, two.paused)
	one.publish("jobs", "m")
	got := make(chan []api.Delivery, 1)
	go func() { all, _ := two.app("main").tryPull(1, patience); got <- all }()
	eventually(t, "a pull waits", patience, func() bool { return two.capsule("main").Pulls > 0 })
	one.must("resume", "jobs")
	resumed := ran()
	if all := <-got; len(all) != 1 || ran()-resumed > time.Second {
		t.Errorf("got %d messages %v after the resume", len(all), ran()-resumed)
	}
}

// Tenants are paused one by one, whatever they are called; the others go on in fair turns, and whoever is resumed has no
// burst.
func TestAPausedTenant(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	one, two := startAgent(t, controlSettings(server, "one", "")), startAgent(t, controlSettings(server, "two", ""))
	keys := map[string]string{"": "", "a.*.>": "a.%2A.%3E", "_": "_", "acme": "acme", "globex": "globex"}
	for key := range keys {
		one.batch("jobs", notes(60, "m", note{Key: key})...)
	}
	for key, path := range keys {
		if key == "acme" || key == "globex" {
			continue
		}
		var p api.Paused
		if e := one.operate("POST", "/v1/queues/jobs/keys/"+path+"/pause", "", &p); e != nil || !p.Paused || p.Key == nil || *p.Key != key {
			t.Fatalf("pause of %q: %+v %v", key, p, e)
		}
	}
	eventually(t, "the other agent follows", time.Second, func() bool { return two.capsule("main").Queues[0].PausedKeys == 3 })
	app := two.app("main")
	shares := count(app.take(40, 4))
	if shares["acme"] != 20 || shares["globex"] != 20 {
		t.Errorf("shares while the others are paused: %v", shares)
	}
	if out := two.must("queues", "jobs"); !strings.Contains(out, "a.*.> (paused)") || !strings.Contains(out, "(unkeyed) (paused)") {
		t.Errorf("queues shows\n%s", out)
	}
	one.must("resume", "jobs", "--key", "")
	two.must("resume", "jobs", "--key", "_")
	eventually(t, "the other agent follows", time.Second, func() bool { return two.capsule("main").Queues[0].PausedKeys == 1 })
	// Of any two that have work, neither is ever ahead by more than a turn each.
	served := map[string]int{}
	for _, d := range app.take(100, 4) {
		served[d.Key]++
		for _, key := range []string{"", "_", "acme", "globex"} {
			if served[d.Key]-served[key] > 2 {
				t.Fatalf("%q has had %d turns since the resume, %q %d", d.Key, served[d.Key], key, served[key])
			}
		}
	}
	if served["a.*.>"] > 0 {
		t.Errorf("the tenant that is paused still had %d turns", served["a.*.>"])
	}
}

// A weight that is set through one agent flips the shares of what waits, at the other one, exactly; it survives restarts,
// and can be taken back.
func TestAWeightFlipsTheSharesOfWhatWaits(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	one, two := startAgent(t, controlSettings(server, "one", "")), startAgent(t, controlSettings(server, "two", ""))
	for _, key := range []string{"acme", "configured"} {
		one.batch("jobs", notes(400, "m", note{Key: key})...)
	}
	// share checks windows of whole turns: shares of acme and of the other tenant.
	share := func(what string, acme, other int) {
		t.Helper()
		app := two.app("main")
		app.take(acme+other, acme+other) // where the old price may still count
		for i := range 10 {
			if got := count(app.take(acme+other, acme+other)); got["acme"] != acme || got["configured"] != other {
				t.Fatalf("%s: window %d has %v, want %d of acme and %d of the other", what, i, got, acme, other)
			}
		}
	}
	seen := func(weight float64, from string) {
		t.Helper()
		eventually(t, "the other agent follows", time.Second, func() bool {
			var w api.KeyWeight
			return two.operate("GET", "/v1/queues/jobs/keys/acme/weight", "", &w) == nil && w.Weight == weight && w.From == from
		})
	}
	share("as configured", 1, 2)
	if out := one.must("weight", "jobs", "acme", "6"); !strings.Contains(out, "key acme of queue jobs has weight 6, set by an operator, said through agent one") {
		t.Errorf("weight prints %s", out)
	}
	seen(6, api.WeightOverride)
	share("6 to 2", 3, 1)
	one.must("weight", "jobs", "configured", "6")
	eventually(t, "the other agent follows", time.Second, func() bool {
		return strings.Contains(two.must("weight", "jobs", "configured"), "weight 6,")
	})
	share("6 to 6", 1, 1)

	one.kill()
	two.stop()
	server.kill()
	server.start()
	one, two = startAgent(t, controlSettings(server, "one", one.dir)), startAgent(t, controlSettings(server, "two", two.dir))
	one.must("weight", "jobs", "acme", "3")
	seen(3, api.WeightOverride)
	share("3 to 6, after everything was restarted", 1, 2)
	var w api.KeyWeight
	if e := one.operate("DELETE", "/v1/queues/jobs/keys/configured/weight", "", &w); e != nil || w.Weight != 2 || w.From != api.WeightConfig {
		t.Errorf("taken back: %+v %v", w, e)
	}
	one.must("weight", "jobs", "acme", "--unset")
	seen(1, api.WeightMessages)
	share("taken back", 1, 2)
}

// A purge under live workers of two agents: nothing is pulled out of anybody's hands, nothing is lost, and nothing is
// counted twice.
func TestAPurgeUnderLiveWorkers(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	one, two := startAgent(t, controlSettings(server, "one", "")), startAgent(t, controlSettings(server, "two", ""))
	const total = 6000
	for key := range 5 {
		for level := range 3 {
			one.batch("jobs", notes(total/15, "m", note{Key: fmt.Sprint("k", key), Priority: level})...)
		}
	}
	held := append(one.app("main").hold(40), two.app("main").hold(40)...)

	var mu sync.Mutex
	statuses, acked := map[api.Status]int{}, map[uint64]int{}
	settle := func(a *agent, all []api.Delivery) {
		for _, d := range all {
			s := a.say(d, api.Settlement{Result: api.Ack})
			mu.Lock()
			statuses[s]++
			acked[d.Seq]++
			mu.Unlock()
		}
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range 6 {
		a := []*agent{one, two}[i%2]
		work.Go(func() {
			app := a.app("main")
			for {
				got, err := app.tryPull(3, 50*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(5 * time.Millisecond) // the work
				settle(a, got)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	eventually(t, "the workers are at work", patience, func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) > 100 })
	var purged api.Purged
	if err := json.Unmarshal([]byte(one.must("purge", "jobs", "--yes", "-o", "json")), &purged); err != nil {
		t.Fatal(err)
	}
	close(stop)
	work.Wait()
	settle(one, held[:40])
	settle(two, held[40:])
	if statuses[api.StatusOK] != len(acked) || len(statuses) != 1 {
		t.Errorf("acks were answered with %v, of %d messages", statuses, len(acked))
	}
	if len(acked)+purged.Removed != total {
		t.Errorf("%d were acked and %d removed, of %d", len(acked), purged.Removed, total)
	}
	if purged.Removed < total/4 {
		t.Errorf("only %d were removed: the test proves little", purged.Removed)
	}
	q := two.queue("jobs")
	equal(t, "waiting and in flight", q.Waiting+q.InFlight, 0)
	t.Logf("%d acked, %d removed", len(acked), purged.Removed)
}

// One tenant is purged, in a paused queue, with what backs off.
func TestAPurgeOfATenant(t *testing.T) {
	t.Parallel()
	a := startAgent(t, controlSettings(startNATS(t), "one", ""))
	for _, key := range []string{"acme", ""} {
		a.batch("jobs", notes(30, "m", note{Key: key})...)
		a.batch("jobs", notes(30, "m", note{Key: key, Priority: 2})...)
	}
	for _, d := range a.app("main").pull(20, patience) {
		a.say(d, api.Settlement{Result: api.Nack, Delay: "1h"})
	}
	a.must("pause", "jobs")
	equal(t, "purge prints", a.must("purge", "jobs", "--key", "", "--yes"), "key (unkeyed) of queue jobs: 60 messages removed\n")
	equal(t, "purge prints", a.must("purge", "jobs", "--key", "acme", "--yes"), "key acme of queue jobs: 60 messages removed\n")
	q := a.queue("jobs")
	equal(t, "left", q.Waiting+q.InFlight+q.Delayed, 0)
}

// A queue with a cap per key tells its keys apart too: one is paused, the others go on, and it can be purged alone.
func TestPauseOfACappedKey(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, concurrency_per_key: 2}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	for i := range 3 {
		a.publish("jobs", fmt.Sprint("a", i), api.HeaderKey, "acme")
		a.publish("jobs", fmt.Sprint("b", i), api.HeaderKey, "b")
	}
	if _, stderr, code := command(t, a, "pause", "jobs", "--key", "acme"); code != 0 {
		t.Fatal(stderr)
	}
	app := a.app("main")
	for i := range 3 {
		d := app.pull(1, patience)
		equal(t, "taken", strings.Join(data(d), " "), fmt.Sprint("b", i))
		equal(t, "ack", a.say(d[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	}
	equal(t, "of the paused one", len(app.pull(1, 500*time.Millisecond)), 0)
	out, stderr, code := command(t, a, "purge", "jobs", "--key", "acme", "--yes")
	if code != 0 || !strings.Contains(out, "3") {
		t.Errorf("purge: exit code %d, %s%s", code, out, stderr)
	}
}

// What cannot be done is told, with the exit codes of all commands.
func TestControlsThatFail(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, controlSettings(server, "one", ""))
	a.publish("jobs", "m")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "unknown_queue", []string{"pause", "nope"}},
		{1, "unknown_queue", []string{"purge", "nope", "--yes"}},
		{1, "needs_fair_share", []string{"pause", "other", "--key", "acme"}},
		{1, "needs_fair_share", []string{"weight", "other", "acme", "2"}},
		{1, "needs_fair_share", []string{"purge", "other", "--key", "acme", "--yes"}},
		{1, "invalid_key", []string{"pause", "jobs", "--key", strings.Repeat("x", 129)}},
		{1, "invalid_weight", []string{"weight", "jobs", "acme", "0.0001"}},
		{2, "above 0, at most 1000", []string{"weight", "jobs", "acme", "1001"}},
	} {
		if _, stderr, code := command(t, a, c.args...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit code %d, want %d and %q in %s", c.args, code, c.code, c.says, stderr)
		}
	}
	if e := a.operate("PUT", "/v1/queues/jobs/keys/acme/weight", `{"weight":0}`, nil); e == nil || e.Code != api.CodeInvalidWeight {
		t.Errorf("weight 0: %v", e)
	}
	server.kill()
	for _, args := range [][]string{{"pause", "jobs"}, {"weight", "jobs", "acme", "2"}, {"purge", "jobs", "--yes"}} {
		if _, stderr, code := command(t, a, args...); code != 69 {
			t.Errorf("%q without NATS: exit code %d: %s", args, code, stderr)
		}
	}
	server.start()
	eventually(t, "the agent is connected again", patience, func() bool {
		_, _, code := command(t, a, "health")
		return code == 0
	})
	equal(t, "paused by a command that failed", a.paused(), false)
	a.app("main").take(1, 1)
}

// When the bucket is deleted and made anew, what was set in it is gone, as documented; a pause holds until then.
func TestANewBucketHasNoPauses(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, controlSettings(server, "one", ""))
	a.must("pause", "jobs")
	a.publish("jobs", "m")
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	injected(t, "deleted", "bucket")
	if err := js.DeleteKeyValue(t.Context(), "fairlead"); err != nil {
		t.Fatal(err)
	}
	equal(t, "pulled after the bucket was deleted", len(a.app("main").pull(1, 2*time.Second)), 0)
	if _, stderr, code := command(t, a, "pause", "jobs", "--key", "acme"); code != 69 || !strings.Contains(stderr, "bucket") {
		t.Errorf("a pause without a bucket: exit code %d: %s", code, stderr)
	}
	if out, err := exec.Command(fairlead, "setup", "--config", filepath.Join(a.dir, "fairlead.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("setup: %v: %s", err, out)
	}
	eventually(t, "the pause is gone", patience, func() bool { return !a.paused() })
	a.app("main").take(1, 1)
}

// A queue with a single active consumer is paused, resumed and purged as any other: order is kept, and the one message that
// is out is left alone, also when the purge goes through an agent that only stands by.
func TestControlsOfASingleActiveConsumer(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	s := func(id string) settings {
		return settings{id: id, nats: server.url, yaml: `
coordination: {heartbeat_interval: 200ms, stale_after: 5s, lease_ttl: 10s}
queues: [{name: steps, priority_levels: 2, fair_share: true, single_active_consumer: true}]
capsules: [{name: main, queues: [steps]}]
`}
	}
	one, two := startAgent(t, s("one")), startAgent(t, s("two"))
	one.batch("steps", notes(200, "m", note{Key: "a"})...)
	app := one.app("main")
	first := app.pull(1, patience)
	equal(t, "first", strings.Join(data(first), " "), "m0")

	two.must("pause", "steps")
	eventually(t, "the holder follows", time.Second, one.paused)
	equal(t, "ack of what was out", one.say(first[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "pulled while it is paused", len(app.pull(1, 300*time.Millisecond)), 0)
	two.must("resume", "steps")
	eventually(t, "the holder follows", time.Second, func() bool { return !one.paused() })
	equal(t, "order", strings.Join(data(app.take(3, 1)), " "), "m1 m2 m3")

	held := app.pull(1, patience)
	equal(t, "in hand", strings.Join(data(held), " "), "m4")
	if _, stderr, code := command(t, two, "purge", "steps", "--yes"); code != 1 || !strings.Contains(stderr, "needs_pause") {
		t.Errorf("a purge that is not paused: exit code %d: %s", code, stderr)
	}
	two.must("pause", "steps")
	equal(t, "purge prints", two.must("purge", "steps", "--yes"), "queue steps: 195 messages removed\n")
	equal(t, "ack of what was in hand", one.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	one.must("resume", "steps")
	one.publish("steps", "next", api.HeaderKey, "a")
	equal(t, "after the purge", strings.Join(data(app.take(1, 1)), " "), "next")

	// What backs off, or waits, goes too; and with nobody there everything does.
	one.batch("steps", notes(20, "m", note{Key: "b", Priority: 1})...)
	one.say(app.pull(1, patience)[0], api.Settlement{Result: api.Nack, Delay: "1s"})
	one.must("pause", "steps")
	equal(t, "purge prints", two.must("purge", "steps", "--key", "b", "--yes"), "key b of queue steps: 20 messages removed\n")
	one.batch("steps", notes(20, "m", note{Key: "b", Priority: 1})...)
	one.stop()
	equal(t, "purge prints", two.must("purge", "steps", "--key", "b", "--yes"), "key b of queue steps: 20 messages removed\n")
}

// validate --connect says what will not be as the file has it, and that is no failure.
func TestValidateWarnsOfAnotherDefinitionInForce(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, controlSettings(server, "one", ""))
	file := filepath.Join(a.dir, "fairlead.yaml")
	if _, stderr, code := command(t, nil, "validate", "--config", file, "--connect"); code != 0 || stderr != "" {
		t.Errorf("the file in force: exit code %d: %s", code, stderr)
	}
	a.reload("name: jobs, priority_levels: 3", "name: jobs, revision: 4, priority_levels: 2", "the definition of a queue has changed")
	old := launchable(t, controlSettings(server, "two", ""))
	_, stderr, code := command(t, nil, "validate", "--config", old, "--connect")
	if code != 0 || !strings.Contains(stderr, "warning: queue jobs: another definition is in force, revision 4 set by one; the file, revision 0, differs in: ") ||
		!strings.Contains(stderr, "priority_levels") || strings.Contains(stderr, "other:") {
		t.Errorf("another file: exit code %d: %s", code, stderr)
	}
}

// launchable writes the file of an agent that is not started.
func launchable(t *testing.T, s settings) string {
	t.Helper()
	dir := folder(t)
	file := filepath.Join(dir, "fairlead.yaml")
	text := "agent: {id: " + s.id + "}\nnats: {url: " + s.nats + "}\nlisten: {socket: " + filepath.Join(dir, "agent.sock") + ", probes_http: \"\", dashboard_http: \"\"}\n" + s.yaml
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
