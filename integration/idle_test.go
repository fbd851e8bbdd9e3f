package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

// All workers are busy for longer than the server keeps a lane that nobody asks. It forgets lanes; attempts and delays are
// kept all the same.
func TestAllWorkersAreBusyForLong(t *testing.T) {
	slow(t)
	t.Parallel()
	const workers, soon, late = 4, 5 * time.Second, 55 * time.Second
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: fmt.Sprintf(`
queues: [{name: jobs, fair_share: true, ack_wait: 5s, retry: {max_attempts: 0}}]
capsules: [{name: main, queues: [jobs], concurrency: %d, lease: 5s}]
`, workers)})
	app := a.app("main")
	said := map[string]time.Time{}
	for i := range 20 {
		a.publish("jobs", fmt.Sprint("soon", i), api.HeaderKey, fmt.Sprint("soon", i%5))
		a.publish("jobs", fmt.Sprint("late", i), api.HeaderKey, fmt.Sprint("late", i%5))
	}
	for len(said) < 40 {
		for _, d := range app.pull(workers, patience) {
			equal(t, "attempt", d.Attempt, 1)
			delay := soon
			if strings.HasPrefix(d.Key, "late") {
				delay = late
			}
			said[string(d.Payload())] = time.Now()
			equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: delay.String()}), api.StatusOK)
		}
	}
	a.batch("jobs", notes(workers, "long", note{Key: "long"})...)
	var long []api.Delivery
	for len(long) < workers { // before what backs off is due: soon is long enough for that
		long = append(long, app.pull(workers-len(long), patience)...)
	}
	for _, d := range long {
		equal(t, "what the workers are busy with", d.Key, "long")
	}
	a.batch("jobs", notes(20, "fresh", note{Key: "fresh"})...)
	busy := time.Now()
	kept := 5
	for kept > 0 {
		for _, d := range long {
			equal(t, "extend", a.say(d, api.Settlement{Result: api.Extend}), api.StatusOK)
		}
		if time.Since(busy) > late-5*time.Second {
			t.Fatalf("the server keeps %d lanes although nobody has asked them for %v", kept, time.Since(busy))
		}
		time.Sleep(time.Second)
		kept = len(server.lanes("FL_Q_jobs", "-soon"))
	}
	injected(t, "lane forgotten", fmt.Sprintf("the server, after %v", time.Since(busy).Round(time.Second)))
	for _, d := range long {
		equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}

	early, wrong := 0, 0
	for range 60 {
		d := app.pull(1, late)[0]
		id, delay := string(d.Payload()), soon
		if strings.HasPrefix(id, "late") {
			delay = late
		}
		at, nacked := said[id]
		if nacked && time.Since(at) < delay {
			early++
		}
		if want := map[bool]int{true: 2, false: 1}[nacked]; d.Attempt != want {
			t.Errorf("%s came at attempt %d, want %d", id, d.Attempt, want)
			wrong++
		}
		equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}
	app.empty()
	equal(t, "left", len(server.left("FL_Q_jobs")), 0)
	verdict(t, "attempts", early == 0 && wrong == 0, "of 60 messages %d came at a wrong attempt and %d too early, %v after all workers became busy",
		wrong, early, time.Since(busy).Round(time.Second))
}

// lanes lists the lane consumers of a stream with something in their names.
func (s *natsServer) lanes(stream, part string) []string {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for name := range st.ConsumerNames(s.t.Context()).Name() {
		names = append(names, name)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, part) })
}
