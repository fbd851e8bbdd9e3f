package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

// ringQueue is a queue of three levels that makes room.
func ringQueue(limits, more string) string {
	return `
queues: [{name: jobs, priority_levels: 3, limits: {` + limits + `, overflow: ring}` + more + `}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`
}

var shares = map[string]string{"fair": ", fair_share: true", "arrival order": ""}

// offer publishes one message and returns "", or the reason for which a full queue has refused it.
func (a *agent) offer(level int, key, payload string) string {
	a.t.Helper()
	_, refused := a.tryPublish("jobs", payload, api.HeaderPriority, fmt.Sprint(level), api.HeaderKey, key)
	if refused == nil {
		return ""
	}
	if refused.Code != api.CodeQueueFull || refused.Reason == "" {
		a.t.Errorf("publish: %+v, want queue_full with a reason", refused)
	}
	return refused.Reason
}

// waiting lists what waits, as it would be delivered by one worker.
func (a *agent) waiting() string {
	a.t.Helper()
	var list api.PeekList
	a.get("/v1/queues/jobs/peek?max=1000", &list)
	slices.SortFunc(list.Messages, func(m, n api.Peeked) int { return int(int64(m.Seq) - int64(n.Seq)) })
	var names []string
	for _, m := range list.Messages {
		names = append(names, *m.Data)
	}
	return strings.Join(names, " ")
}

// Four publishers send 160 into a limit of 50: exactly 50 are accepted, and these 50 are stored. A raw publisher meets
// JetStream's own refusal at the same limit.
func TestRejectIsExact(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	yaml := `
queues: [{name: jobs, limits: {max_messages: 50}}]
capsules: [{name: main, queues: [jobs]}]
`
	agents := []*agent{startAgent(t, settings{id: "a", nats: server.url, yaml: yaml}), startAgent(t, settings{id: "b", nats: server.url, yaml: yaml})}
	var mu sync.Mutex
	answers := map[string]int{}
	accepted := map[string]bool{}
	var publishers sync.WaitGroup
	for p := range 4 {
		publishers.Go(func() {
			for i := range 40 {
				payload := fmt.Sprintf("%d-%d", p, i)
				answer, text, err := agents[p%2].call(agents[p%2].http, "POST", "/v1/queues/jobs/messages", []byte(payload))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				answers[fmt.Sprintf("%d %t", answer.StatusCode, strings.Contains(string(text), `"queue_full"`))]++
				if answer.StatusCode == 201 {
					accepted[payload] = true
				}
				mu.Unlock()
			}
		})
	}
	publishers.Wait()
	equal(t, "accepted and refused", fmt.Sprint(answers), "map[201 false:50 429 true:110]")
	for _, payload := range strings.Fields(agents[0].waiting()) {
		if !accepted[payload] {
			t.Errorf("%s is stored and was not accepted", payload)
		}
		delete(accepted, payload)
	}
	equal(t, "accepted and not stored", len(accepted), 0)
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "fl.q.jobs.d._", Data: []byte("raw")})
	if refused := new(jetstream.APIError); !errors.As(err, &refused) || refused.ErrorCode != 10077 {
		t.Errorf("a raw publisher at the limit: %v, want JetStream's refusal 10077", err)
	}
}

func TestRingMakesRoom(t *testing.T) {
	t.Parallel()
	for name, share := range shares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, settings{yaml: ringQueue("max_messages: 5", share)})
			for i, level := range []int{2, 2, 1, 1, 0} {
				equal(t, "there is room", a.offer(level, fmt.Sprint("t", i%2), fmt.Sprintf("%d%c", level, 'a'+i)), "")
			}
			equal(t, "a 0 comes", a.offer(0, "t0", "x"), "")
			equal(t, "the older 2 has gone", a.waiting(), "2b 1c 1d 0e x")
			for range 4 {
				equal(t, "more come", a.offer(0, "t1", "y"), "")
			}
			equal(t, "five 0s wait", a.waiting(), "x y y y y")
			equal(t, "a 2 comes", a.offer(2, "t0", "z"), "lower_than_all")
			equal(t, "nothing has gone", a.waiting(), "x y y y y")
		})
	}
}

func TestRingLeavesRunningWorkAlone(t *testing.T) {
	t.Parallel()
	for name, share := range shares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startNATS(t)
			a := startAgent(t, settings{id: "a", nats: server.url, yaml: ringQueue("max_messages: 5", share)})
			b := startAgent(t, settings{id: "b", nats: server.url, yaml: ringQueue("max_messages: 5", share)})
			for i := range 5 {
				a.offer(1, fmt.Sprint("t", i), fmt.Sprint(i))
			}
			app := b.app("main")
			running := append(app.pull(1, patience), app.pull(1, patience)...)
			var left []string
			for i := range 5 {
				if !slices.Contains(data(running), fmt.Sprint(i)) {
					left = append(left, fmt.Sprint(i))
				}
			}
			equal(t, "one more comes", a.offer(1, "t1", "new"), "")
			all := append(append(data(running), left[1:]...), "new")
			slices.Sort(all)
			now := strings.Fields(a.waiting()) // another agent's work is among it
			slices.Sort(now)
			equal(t, "the third oldest has gone", fmt.Sprint(now), fmt.Sprint(all))
			for range 3 {
				running = append(running, app.pull(1, patience)...)
			}
			for level := range 3 {
				equal(t, "all are in flight", a.offer(level, "t1", "refused"), "max_messages")
			}
			for _, d := range running {
				equal(t, "running work was not touched", b.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
			}
			app.empty()
		})
	}
}

// 600 messages of three levels from four publishers, through two agents, into 200: the highest are left, and nobody was
// evicted in vain.
func TestRingKeepsTheHighest(t *testing.T) {
	t.Parallel()
	for name, share := range shares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startNATS(t)
			agents := []*agent{
				startAgent(t, settings{id: "a", nats: server.url, yaml: ringQueue("max_messages: 200", share)}),
				startAgent(t, settings{id: "b", nats: server.url, yaml: ringQueue("max_messages: 200", share)}),
			}
			var mu sync.Mutex
			reasons := map[string]int{}
			var publishers sync.WaitGroup
			for p := range 4 {
				publishers.Go(func() {
					for i := range 150 {
						reason := agents[p%2].offer((p+i)%3, fmt.Sprint("t", i%5), fmt.Sprint((p+i)%3))
						mu.Lock()
						reasons[reason]++
						mu.Unlock()
					}
				})
			}
			publishers.Wait()
			q := agents[0].queue("jobs")
			equal(t, "waiting", q.Waiting, 200)
			equal(t, "of level 0", q.LevelStats[0].Waiting, 200)
			equal(t, "accepted or outranked", reasons[""]+reasons["lower_than_all"], 600)
		})
	}
}

// A batch into a full ring: each line has its own outcome, in order.
func TestRingBatch(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: ringQueue("max_messages: 3", ", fair_share: true")})
	results := a.batchText("jobs", []byte(strings.Join([]string{
		`{"data":"a","priority":1}`, `{"data":"b","priority":1}`, `{"data":"c","priority":0}`,
		`{"data":"d","priority":2}`, `not json`, `{"data":"e","priority":0,"id":"same"}`, `{"data":"f","priority":0,"id":"same"}`,
	}, "\n")))
	var got []string
	for _, r := range results {
		switch {
		case r.Error != nil:
			got = append(got, string(r.Error.Code)+r.Error.Reason)
		case r.Duplicate:
			got = append(got, "duplicate")
		default:
			got = append(got, "stored")
		}
	}
	equal(t, "results", fmt.Sprint(got), "[stored stored stored queue_fulllower_than_all bad_request stored duplicate]")
	equal(t, "left", a.waiting(), "b c e")
}
