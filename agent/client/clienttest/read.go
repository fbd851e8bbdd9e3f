package clienttest

import (
	"net/http"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

func (a *Agent) status(w http.ResponseWriter, _ *http.Request) {
	_, inFlight := a.Waiting()
	a.mu.Lock()
	defer a.mu.Unlock()
	state := api.StateActive
	if a.draining {
		state = api.StateDraining
	}
	answer(w, http.StatusOK, a.statusLocked(state, inFlight))
}

// overview has no rates: nobody counts them here.
func (a *Agent) overview(w http.ResponseWriter, _ *http.Request) {
	q := a.summary()
	_, inFlight := a.Waiting()
	a.mu.Lock()
	defer a.mu.Unlock()
	status := a.statusLocked(api.StateActive, inFlight)
	answer(w, http.StatusOK, api.Overview{At: time.Now().UTC(), Status: &status, Queues: []api.QueueOverview{{QueueSummary: q, FairShare: true}}})
}

func (a *Agent) statusLocked(state string, inFlight int) api.AgentStatus {
	return api.AgentStatus{
		Agent: "test-1", Version: "v0.0.0", State: state, PID: 42,
		StartedAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), UptimeSeconds: 3725,
		Broker: api.BrokerStatus{Connected: a.broken == nil, URL: "nats://127.0.0.1:4222", Server: "test 2.15.3"},
		Capsules: []api.CapsuleStatus{{
			Name: "default", Concurrency: 10, InFlight: inFlight, Pulls: 1, Demand: true,
			Queues: []api.CapsuleQueue{{Name: a.Queue, Lanes: 2, Paused: a.set.paused}},
		}},
		Peers: []api.Peer{{Agent: "test-2", Capsule: "default", Queues: []string{a.Queue}, Demand: true, AgeSeconds: 1.2}},
	}
}

func (a *Agent) queues(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, api.QueueList{Queues: []api.QueueSummary{a.summary()}})
}

func (a *Agent) summary() api.QueueSummary {
	waiting, inFlight := a.Waiting()
	s := api.QueueSummary{Name: a.Queue, Levels: len(a.Levels), Waiting: uint64(waiting), InFlight: uint64(inFlight)}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Paused = a.set.paused
	for _, m := range a.messages {
		if !m.finished {
			s.Bytes += uint64(len(m.DataBase64))
		}
	}
	return s
}

func (a *Agent) queue(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("queue") != a.Queue {
		fail(w, unknownQueue(r.PathValue("queue")))
		return
	}
	out := api.QueueStatus{QueueSummary: a.summary(), OldestAgeSeconds: 1.5}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, name := range a.Levels {
		out.LevelStats = append(out.LevelStats, api.LevelStat{Priority: i, Name: name})
	}
	keys := map[string]*api.KeyStat{}
	for _, m := range a.messages {
		if m.finished {
			continue
		}
		if keys[m.Key] == nil {
			k := &api.KeyStat{Key: m.Key, Weight: m.Weight, From: api.WeightMessages, Paused: a.set.keys[m.Key]}
			if weight, ok := a.set.weight[m.Key]; ok {
				k.Weight, k.From = weight, api.WeightOverride
			}
			keys[m.Key] = k
		}
		if m.taken {
			keys[m.Key].InFlight++
			out.LevelStats[m.Priority].InFlight++
		} else {
			keys[m.Key].Waiting++
			out.LevelStats[m.Priority].Waiting++
		}
	}
	for _, k := range keys {
		out.Keys = append(out.Keys, *k)
	}
	sort.Slice(out.Keys, func(i, j int) bool {
		if out.Keys[i].Waiting != out.Keys[j].Waiting {
			return out.Keys[i].Waiting > out.Keys[j].Waiting
		}
		return out.Keys[i].Key < out.Keys[j].Key
	})
	out.KeysTotal = len(out.Keys)
	if limit, err := strconv.Atoi(r.URL.Query().Get("keys")); err == nil && len(out.Keys) > limit {
		out.Keys = out.Keys[:limit]
	}
	answer(w, http.StatusOK, out)
}

func (a *Agent) peek(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("queue") != a.Queue {
		fail(w, unknownQueue(r.PathValue("queue")))
		return
	}
	query := r.URL.Query()
	limit := 10
	if n, err := strconv.Atoi(query.Get("max")); err == nil {
		limit = n
	}
	level := -1
	if query.Has("priority") {
		n, bad := a.level(query.Get("priority"))
		if bad != nil {
			fail(w, bad)
			return
		}
		level = n
	}
	out := api.PeekList{Messages: []api.Peeked{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.messages {
		if m.taken || m.finished || len(out.Messages) == limit || level >= 0 && m.Priority != level ||
			query.Has("key") && m.Key != query.Get("key") {
			continue
		}
		p := api.Peeked{Queue: a.Queue, Priority: m.Priority, Key: m.Key, Seq: m.Seq, ID: m.ID, EnqueuedAt: m.EnqueuedAt, Headers: m.Headers}
		if utf8.Valid(m.DataBase64) {
			text := string(m.DataBase64)
			p.Data = &text
		} else {
			p.DataBase64 = m.DataBase64
		}
		out.Messages = append(out.Messages, p)
	}
	answer(w, http.StatusOK, out)
}

// drain waits for what is in apps' hands, like the admin socket. The fake knows no wait but for ever and not at all.
func (a *Agent) drain(w http.ResponseWriter, r *http.Request) {
	a.Drain()
	timer := time.NewTimer(0)
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil {
		timer.Reset(wait)
	}
	defer timer.Stop()
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if _, inFlight := a.Waiting(); inFlight == 0 {
			answer(w, http.StatusOK, map[string]string{"state": "drained"})
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			answer(w, http.StatusAccepted, map[string]string{"state": "draining"})
			return
		case <-r.Context().Done():
			return
		}
	}
}
