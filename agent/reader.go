package agent

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Status implements socket.Reader.
func (e engine) Status(context.Context) (*api.AgentStatus, error) {
	a := e.a
	conn := a.client.Connection()
	s := &api.AgentStatus{
		Agent: a.settings().Agent.ID, Version: a.o.Version, State: a.State(), PID: os.Getpid(), StartedAt: a.started.UTC(),
		UptimeSeconds: time.Since(a.started).Seconds(),
		Broker: api.BrokerStatus{
			Connected: conn.Connected, URL: conn.URL, Server: conn.Server, Embedded: conn.Embedded,
			Reconnects: conn.Reconnects, LastError: conn.LastError,
		},
		Capsules: []api.CapsuleStatus{}, Peers: []api.Peer{}, Warnings: a.warnings(),
	}
	for _, name := range a.order {
		st := a.capsules[name].Status()
		c := api.CapsuleStatus{
			Name: name, Concurrency: st.Concurrency, Credit: st.Credit, InFlight: st.InFlight, Pulls: st.Pulls, Demand: st.Demand,
			Delivered: st.Delivered, LanePulls: st.LanePulls, EmptyPulls: st.EmptyPulls, Queues: []api.CapsuleQueue{},
		}
		c.Queues = append(c.Queues, a.capsuleQueues(name, st)...)
		s.Capsules = append(s.Capsules, c)
	}
	for _, p := range a.group.Peers() {
		if !slices.ContainsFunc(p.Queues, a.serves) {
			continue
		}
		s.Peers = append(s.Peers, api.Peer{
			Agent: p.Agent, Capsule: p.Capsule, Queues: p.Queues, ConsumerPriority: p.ConsumerPriority, Demand: p.Demand,
			AgeSeconds: p.Age.Seconds(),
		})
	}
	return s, nil
}

// serves tells whether a capsule of this agent reads the queue.
func (a *Agent) serves(queue string) bool {
	return slices.ContainsFunc(a.settings().Capsules, func(c config.Capsule) bool { return slices.Contains(c.Queues, queue) })
}

// setWarning replaces what keeps the agent from being set up; "" is nothing.
func (a *Agent) setWarning(w string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warn = w
}

func (a *Agent) warnings() []string {
	a.mu.Lock()
	w := a.warn
	a.mu.Unlock()
	list := slices.Concat(a.client.Missing(), a.client.SparedWarnings(), a.group.Warnings(), a.sources.warnings(a.group.Definitions()))
	for _, own := range []string{a.dashboardTaken, a.probesTaken, w} { // of these, the one that keeps it from working comes first
		if own != "" {
			list = append([]string{own}, list...)
		}
	}
	return list
}

// Queues implements socket.Reader.
func (e engine) Queues(ctx context.Context) (*api.QueueList, error) {
	list := &api.QueueList{Queues: []api.QueueSummary{}}
	for _, def := range e.a.group.Definitions() {
		s, err := e.a.client.Stats(ctx, broker.NewLayout(def), 0)
		if err != nil {
			return nil, brokerError(err)
		}
		delayed, err := e.a.client.DelayedCounts(ctx, broker.NewLayout(def))
		if err != nil {
			return nil, brokerError(err)
		}
		q := e.summary(def, s, delayed)
		if q.Dead, err = e.a.client.DeadCount(ctx, def.Name); err != nil {
			return nil, brokerError(err)
		}
		list.Queues = append(list.Queues, q)
	}
	return list, nil
}

// summary counts what backs off as delayed, together with the delayed messages of each level: neither is to be had now.
func (e engine) summary(def config.Queue, s broker.Stats, delayed []uint64) api.QueueSummary {
	_, paused := e.a.controls.Get(pauseOf(def.Name, nil))
	q := api.QueueSummary{
		Name: def.Name, Levels: def.Levels, Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.BackingOff, Bytes: s.Bytes,
		Paused: paused,
	}
	for _, n := range delayed {
		q.Delayed += n
	}
	return q
}

// Queue implements socket.Reader.
func (e engine) Queue(ctx context.Context, name string, keys int) (*api.QueueStatus, error) {
	def, ok := e.a.followed(name)
	if !ok {
		return nil, unknownQueue(name)
	}
	s, err := e.a.client.Stats(ctx, broker.NewLayout(def), keys)
	if err != nil {
		return nil, brokerError(err)
	}
	delayed, err := e.a.client.DelayedCounts(ctx, broker.NewLayout(def))
	if err != nil {
		return nil, brokerError(err)
	}
	q := &api.QueueStatus{
		QueueSummary: e.summary(def, s, delayed), Definition: def, LevelStats: []api.LevelStat{}, Keys: []api.KeyStat{}, KeysTotal: s.KeysTotal,
		OldestAgeSeconds: s.OldestAge.Seconds(), Limits: limits(def),
	}
	if q.Dead, err = e.a.client.DeadCount(ctx, name); err != nil {
		return nil, brokerError(err)
	}
	for _, l := range s.Levels {
		stat := api.LevelStat{
			Priority: l.Level, Waiting: l.Waiting, InFlight: l.InFlight, Delayed: l.BackingOff + delayed[l.Level], OldestAgeSeconds: l.OldestAge.Seconds(),
		}
		if l.Level < len(def.LevelNames) {
			stat.Name = def.LevelNames[l.Level]
		}
		q.LevelStats = append(q.LevelStats, stat)
	}
	for _, k := range s.Keys {
		q.Keys = append(q.Keys, e.keyStat(def, k))
	}
	set := e.a.controls.Queue(name)
	q.Controls, q.Warnings = queueControls(set), withoutEffect(def, set)
	if s.Odd > 0 {
		q.Warnings = append(q.Warnings, "some messages are on subjects that are not canonical; agents move them while they work")
	}
	q.Warnings = append(q.Warnings, e.a.sources.of(name)...)
	if s.Partial {
		q.Warnings = append(q.Warnings, "there are more lanes than were counted: in_flight is at least what is shown")
	}
	return q, nil
}

// limits shows the limits of a definition as numbers, under their names in the file.
func limits(def config.Queue) map[string]any {
	l := def.Limits
	return map[string]any{
		"max_messages": l.MaxMessages, "max_bytes": l.MaxBytes, "max_messages_per_key": l.MaxMessagesPerKey,
		"max_payload": l.MaxPayload, "overflow": string(l.Overflow),
	}
}

// Peek implements socket.Reader.
func (e engine) Peek(ctx context.Context, queue string, most int, priority *int, key *string) (*api.PeekList, error) {
	def, ok := e.a.definition(queue)
	if !ok {
		return nil, unknownQueue(queue)
	}
	found, err := e.a.client.Peek(ctx, def, broker.Peek{Max: most, Level: priority, Key: key, Skip: e.a.book.Holds})
	if errors.Is(err, names.ErrInvalidKey) {
		return nil, &api.Error{Code: api.CodeInvalidKey, Message: err.Error()}
	}
	if err != nil {
		return nil, brokerError(err)
	}
	list := &api.PeekList{Messages: []api.Peeked{}}
	for _, p := range found {
		m := api.Peeked{
			Queue: p.Queue, Priority: p.Level, Key: p.Key, Seq: p.Seq, ID: p.ID, EnqueuedAt: p.EnqueuedAt.UTC(),
			ContentType: p.ContentType, Headers: p.Headers,
		}
		if utf8.Valid(p.Data) {
			text := string(p.Data)
			m.Data = &text
		} else {
			m.DataBase64 = p.Data
		}
		list.Messages = append(list.Messages, m)
	}
	return list, nil
}
