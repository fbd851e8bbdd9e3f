package integration

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/api"
)

// allFeatures is a file whose agent needs every permission that there is.
const allFeatures = `
queues:
  - name: jobs
    priority_levels: 3
    fair_share: true
    concurrency_per_key: 2
    sources: [{stream: EVENTS, subject: "events.*.>", key: "{{wildcard(1)}}"}]
  - {name: strict, single_active_consumer: true}
  - {name: ring, priority_levels: 3, fair_share: true, limits: {max_messages: 3, overflow: ring}, dead_letters: {evicted: true}}
capsules:
  - {name: main, queues: [jobs, ring], concurrency: 20}
  - {name: strict, queues: [strict]}
`

// An identity is a file whose agent signs in as one user of a server.
type identity struct{ dir, file, socket, probes string }

// signedIn writes the file of a user; its password is its name.
func signedIn(t *testing.T, user, url, rest string) identity {
	t.Helper()
	i := identity{dir: folder(t), probes: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	i.file, i.socket = filepath.Join(i.dir, "fairlead.yaml"), filepath.Join(i.dir, "agent.sock")
	i.write(t, "password", user)
	i.write(t, "fairlead.yaml", fmt.Sprintf(`agent: {id: %s}
nats: {url: "%s", user: %s, password_file: %s}
listen: {socket: %s, probes_http: "%s", dashboard_http: ""}
log: {format: text}
%s`, user, url, user, filepath.Join(i.dir, "password"), i.socket, i.probes, rest))
	return i
}

func (i identity) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts the agent of an identity that may not make streams.
func (i identity) run(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t, i.dir, i.socket)
	a.process = start(t, "agent", exec.Command(fairlead, "run", "--config", i.file, "--no-setup"))
	a.ready()
	return a
}

// permissions is what the command prints for a file.
func permissions(t *testing.T, flags ...string) string {
	t.Helper()
	dir := folder(t)
	file := filepath.Join(dir, "fairlead.yaml")
	if err := os.WriteFile(file, []byte("nats: {url: nats://127.0.0.1}\n"+allFeatures), 0o600); err != nil {
		t.Fatal(err)
	}
	text, stderr, code := command(t, nil, append([]string{"permissions", "--config", file}, flags...)...)
	if code != 0 {
		t.Fatalf("permissions: exit code %d, %s", code, stderr)
	}
	return text
}

// permission is a line of what the command prints.
type permission struct{ direction, subject, why string }

var permissionLine = regexp.MustCompile(`^ +"([^"]+)" +# (.*)$`)

// linesOf are the permissions in what the command prints.
func linesOf(text string) (list []permission) {
	direction := "publish"
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  subscribe:") {
			direction = "subscribe"
		}
		if m := permissionLine.FindStringSubmatch(line); m != nil {
			list = append(list, permission{direction, m[1], m[2]})
		}
	}
	return list
}

// An agent whose identity has what "permissions" prints does everything, the setup with what "permissions --setup" prints;
// and everything that is printed is used.
func TestAgentsDoEverythingWithExactlyTheirPermissions(t *testing.T) {
	t.Parallel()
	server := startNATSWith(t, fmt.Sprintf(`
trace: true
max_traced_msg_len: 16
authorization: {users: [
  {user: owner, password: owner}
  {user: setup, password: setup, %s}
  {user: worker, password: worker, %s}
]}`, permissions(t, "--setup"), permissions(t)), nats.UserInfo("owner", "owner"))
	server.events("EVENTS", "events.>")
	setup, worker := signedIn(t, "setup", server.url, allFeatures), signedIn(t, "worker", server.url, allFeatures)

	for range 2 { // again changes nothing
		if _, stderr, code := command(t, nil, "setup", "--config", setup.file); code != 0 {
			t.Fatalf("setup: exit code %d, %s", code, stderr)
		}
	}
	if _, stderr, code := command(t, nil, "validate", "--config", worker.file, "--connect"); code != 0 {
		t.Errorf("validate --connect: exit code %d, %s", code, stderr)
	}
	setup.write(t, "fairlead.yaml", strings.Replace(readText(t, setup.file), "max_messages: 3", "max_messages: 4", 1))
	if _, stderr, code := command(t, nil, "setup", "--config", setup.file); code != 0 {
		t.Fatalf("setup of what has changed: exit code %d, %s", code, stderr)
	}

	before := len(server.errs.String()) // validate uses all
	a := worker.run(t)
	everything(t, server, a, worker.probes)
	a.stop()
	if log := a.errs.String(); strings.Contains(strings.ToLower(log), "permissions violation") {
		t.Errorf("something is missing:\n%s", tail(log))
	}
	unused := map[string]permission{}
	for _, p := range linesOf(permissions(t)) {
		unused[p.direction+" "+anyQueue(p.subject)] = p
	}
	if len(unused) < 40 {
		t.Fatalf("only %d permissions", len(unused))
	}
	for _, seldom := range []string{
		"$JS.API.INFO",                          // validate alone asks for it
		"$JS.ACK.FL_DELAY_QUEUE.>",              // when a delayed message is due and its queue is full
		"$JS.API.CONSUMER.DELETE.FL_Q_QUEUE.*",  // when the queue's layout changes, or a lane's server died
		"$JS.API.CONSUMER.INFO.FL_Q_QUEUE.*",    // when a lease has changed hands
		"$JS.API.STREAM.MSG.DELETE.KV_fairlead", // minutes after a record was removed
		"$JS.API.STREAM.MSG.GET.FL_SLOT_QUEUE",  // when a holder of permits is not heard of any more
		"$JS.FC.KV_fairlead.>",                  // when the server asks for it, with much in the bucket
	} {
		delete(unused, "publish "+seldom)
	}
	forget := func() (left int) {
		used := traced(server.errs.String()[before:])
		for what, p := range unused {
			if slices.ContainsFunc(used, func(u permission) bool { return u.direction == p.direction && covers(p.subject, u.subject) }) {
				delete(unused, what)
			}
		}
		return len(unused)
	}
	for end := ran() + 5*time.Second; forget() > 0 && ran() < end; { // the last lines of the server's log may still be on their way
		time.Sleep(50 * time.Millisecond)
	}
	for _, what := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("nothing has used the permission to %s (%s)", what, unused[what].why)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	queueNamesOf = regexp.MustCompile(`\b(jobs|strict|ring)\b|(_)(jobs|strict|ring)\b`)
	traceLine    = regexp.MustCompile(`user:worker" - <<- \[(H?PUB|SUB) (\S+)`)
)

// anyQueue is a permission of whichever queue.
func anyQueue(subject string) string { return queueNamesOf.ReplaceAllString(subject, "${2}QUEUE") }

// covers reports whether a permission, of whichever queue, allows a subject.
func covers(pattern, subject string) bool {
	p, s := strings.Split(anyQueue(pattern), "."), strings.Split(anyQueue(subject), ".")
	for i := range p {
		switch {
		case p[i] == ">":
			return len(s) > i
		case i >= len(s) || p[i] != "*" && p[i] != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// traced are the subjects that the worker's identity has used, as the server saw it.
func traced(log string) (list []permission) {
	seen := map[permission]bool{}
	for _, m := range traceLine.FindAllStringSubmatch(log, -1) {
		p := permission{direction: "publish", subject: m[2]}
		if m[1] == "SUB" {
			p.direction = "subscribe"
		}
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

// everything does all that apps and operators can do.
func everything(t *testing.T, server *natsServer, a *agent, probes string) {
	t.Helper()
	publish := server.publisher()
	app := a.app("main")
	a.publish("jobs", "low", api.HeaderPriority, "2", api.HeaderKey, "acme")
	a.publish("jobs", "high", api.HeaderPriority, "0", api.HeaderKey, "acme")
	a.publish("jobs", "twice", api.HeaderID, "1")
	publish("events.acme.created", "event")
	publish("fl.q.jobs.d.acme.odd", "odd")
	app.take(5, 1)

	// Both lanes of a tenant at the default level have work.
	a.must("pause", "jobs")
	publish("fl.q.jobs.d.acme", "older")
	a.publish("jobs", "newer", api.HeaderPriority, "1", api.HeaderKey, "acme")
	a.must("resume", "jobs")
	app.take(2, 1)

	a.publish("jobs", "later", api.HeaderDelay, "1h", api.HeaderID, "later")
	a.publish("jobs", "later", api.HeaderDelay, "1h", api.HeaderID, "later")
	a.publish("jobs", "soon", api.HeaderDelay, "200ms")
	equal(t, "delayed", string(app.take(1, 1)[0].Payload()), "soon")
	list := a.must("delayed", "list", "jobs", "-o", "json")
	handle := regexp.MustCompile(`"handle":\s*"([^"]+)"`).FindStringSubmatch(list)
	if handle == nil {
		t.Fatalf("delayed list: %s", list)
	}
	a.must("delayed", "cancel", "jobs", handle[1])

	a.publish("jobs", "again")
	d := app.pull(1, patience)
	equal(t, "extend", a.say(d[0], api.Settlement{Result: api.Extend}), api.StatusOK)
	equal(t, "nack", a.say(d[0], api.Settlement{Result: api.Nack, Delay: "50ms"}), api.StatusOK)
	equal(t, "attempt", app.take(1, 1)[0].Attempt, 2)
	for range 2 {
		dead := a.publish("jobs", "dead")
		equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
		a.awaitDead("jobs", 1)
		a.must("dead", "show", "jobs", fmt.Sprint(dead.Seq))
		a.must("dead", "retry", "jobs", "--all")
		equal(t, "tried again", string(app.take(1, 1)[0].Payload()), "dead")
	}
	a.publish("jobs", "dead")
	equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
	a.awaitDead("jobs", 1)
	a.must("dead", "purge", "jobs", "--yes")

	for _, level := range []string{"2", "1", "1", "1", "0"} { // the limit was changed to 4
		a.publish("ring", "of level "+level, api.HeaderPriority, level)
	}
	a.must("peek", "ring")
	a.must("weight", "ring", "acme", "3")
	a.must("weight", "ring", "acme", "--unset")
	a.must("purge", "ring", "--yes")
	app.empty()

	a.publish("strict", "1")
	a.publish("strict", "2")
	strict := a.app("strict")
	strict.take(2, 1)

	a.must("status")
	a.must("queues")
	a.must("queues", "jobs")
	a.shows(probes, numbers{"fairlead_ready": 1, "fairlead_tenants{queue=jobs}": 0, "fairlead_dead_letters{queue=jobs}": 0, "fairlead_sample_failures_total": 0})
	if warnings := a.must("status"); strings.Contains(warnings, "warning") {
		t.Errorf("status: %s", warnings)
	}
}

// Each permission that is taken away is named: by validate --connect, and in the log and the status of an agent that
// does everything that it can.
func TestEachMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	all := linesOf(permissions(t))
	var users strings.Builder
	for i := range all {
		left := slices.Delete(slices.Clone(all), i, i+1)
		fmt.Fprintf(&users, "  {user: without%d, password: without%[1]d, permissions: {publish: %s, subscribe: %s}}\n", i, subjects("publish", left), subjects("subscribe", left))
	}
	server := startNATSWith(t, fmt.Sprintf(`authorization: {users: [
  {user: owner, password: owner}
%s]}`, users.String()), nats.UserInfo("owner", "owner"))
	server.events("EVENTS", "events.>")
	if _, stderr, code := command(t, nil, "setup", "--config", signedIn(t, "owner", server.url, allFeatures).file); code != 0 {
		t.Fatalf("setup: exit code %d, %s", code, stderr)
	}
	for i, missing := range all {
		if os.Getenv("FAIRLEAD_SLOW") == "" && i%12 != 2 {
			continue // package broker goes through all
		}
		t.Run(missing.direction+" "+missing.subject, func(t *testing.T) {
			t.Parallel()
			without := signedIn(t, fmt.Sprintf("without%d", i), server.url, allFeatures)
			_, stderr, code := command(t, nil, "validate", "--config", without.file, "--connect")
			if code == 0 || !strings.Contains(stderr, strings.TrimRight(missing.subject, ".*>")) || !strings.Contains(stderr, "allow it") {
				t.Errorf("validate: exit code %d, %s", code, stderr)
			}
		})
	}
}

// What an app and an operator are told when the agent lacks a permission: the publisher in its answer, the operator in the
// status and the log, each time by the permission's name.
func TestWhoeverMeetsAMissingPermissionIsTold(t *testing.T) {
	t.Parallel()
	all := linesOf(permissions(t))
	may := func(user string, not ...string) string {
		left := slices.DeleteFunc(slices.Clone(all), func(p permission) bool { return slices.Contains(not, p.direction+" "+p.subject) })
		if len(left) != len(all)-len(not) {
			t.Fatalf("there are no permissions %q", not)
		}
		return fmt.Sprintf("  {user: %s, password: %s, permissions: {publish: %s, subscribe: %s}}\n", user, user, subjects("publish", left), subjects("subscribe", left))
	}
	server := startNATSWith(t, "authorization: {users: [\n  {user: owner, password: owner}\n"+
		may("publisher", "publish fl.q.jobs.>")+
		may("finisher", "publish $JS.API.STREAM.MSG.DELETE.FL_Q_jobs")+
		may("taker", "publish $JS.API.CONSUMER.MSG.NEXT.FL_Q_jobs.*")+
		may("reader", "publish $JS.API.STREAM.MSG.GET.FL_Q_jobs", "subscribe fl.wake.jobs.>")+
		may("purger", "publish $JS.API.STREAM.PURGE.FL_DEAD_jobs", "publish $KV.fairlead.>")+
		"]}", nats.UserInfo("owner", "owner"))
	server.events("EVENTS", "events.>")
	if _, stderr, code := command(t, nil, "setup", "--config", signedIn(t, "owner", server.url, allFeatures).file); code != 0 {
		t.Fatalf("setup: exit code %d, %s", code, stderr)
	}
	told := func(a *agent, subject string) {
		t.Helper()
		eventually(t, "status names "+subject, patience, func() bool { return strings.Contains(a.must("status"), subject) })
		eventually(t, "the log names "+subject, patience, func() bool { return strings.Contains(a.errs.String(), subject) })
	}
	agentOf := func(user string) *agent { return signedIn(t, user, server.url, allFeatures).run(t) }

	a := agentOf("publisher")
	_, refused := a.tryPublish("jobs", "x")
	if refused == nil || refused.Code != api.CodeBroker || !strings.Contains(refused.Message, `"fl.q.jobs.>"`) {
		t.Errorf("publish: %+v", refused)
	}
	if _, stderr, code := command(t, a, "publish", "jobs", "x"); code != 69 || !strings.Contains(stderr, `"fl.q.jobs.>"`) {
		t.Errorf("publish: exit code %d, %s", code, stderr)
	}
	told(a, `"fl.q.jobs.>"`)
	a.stop()

	a = agentOf("finisher")
	a.publish("jobs", "x")
	held := a.app("main").pull(1, patience)
	equal(t, "ack", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusUnavailable)
	told(a, "$JS.API.STREAM.MSG.DELETE.FL_Q_jobs")
	a.kill()

	a = agentOf("taker")
	a.app("main").pull(1, 0)
	told(a, "$JS.API.CONSUMER.MSG.NEXT.FL_Q_jobs.*")
	a.kill()

	a = agentOf("reader")
	if _, stderr, code := command(t, a, "peek", "jobs"); code != 69 || !strings.Contains(stderr, "$JS.API.STREAM.MSG.GET.FL_Q_jobs") {
		t.Errorf("peek: exit code %d, %s", code, stderr)
	}
	told(a, "fl.wake.jobs.>")
	a.kill()

	a = agentOf("purger")
	if _, stderr, code := command(t, a, "dead", "purge", "jobs", "--yes"); code != 69 || !strings.Contains(stderr, "$JS.API.STREAM.PURGE.FL_DEAD_jobs") {
		t.Errorf("dead purge: exit code %d, %s", code, stderr)
	}
	if _, stderr, code := command(t, a, "pause", "jobs"); code != 69 || !strings.Contains(stderr, "$KV.fairlead.>") {
		t.Errorf("pause: exit code %d, %s", code, stderr)
	}
	told(a, "$KV.fairlead.>")
	a.kill()
}

// subjects writes a list of the server's configuration.
func subjects(direction string, all []permission) string {
	var list []string
	for _, p := range all {
		if p.direction == direction {
			list = append(list, fmt.Sprintf("%q", p.subject))
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}
