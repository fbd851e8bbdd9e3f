package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/controls"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// controlLimit bounds what is written for an operator. It is longer than all tries of a write.
const controlLimit = 10 * time.Second

// pauseSettles is how long after a pause no agent takes anything any more: they follow within a second.
const pauseSettles = 2 * time.Second

// controlled passes on to the capsules what an operator has set, or taken back.
func (a *Agent) controlled(c controls.Change) {
	for _, cc := range a.settings().Capsules {
		if !slices.Contains(cc.Queues, c.Queue) {
			continue
		}
		switch capsule := a.capsules[cc.Name]; c.Kind {
		case controls.QueuePause:
			capsule.Pause(c.Queue, c.Set)
		case controls.KeyPause:
			capsule.PauseKey(c.Queue, c.Key, c.Set)
		case controls.KeyWeight:
			capsule.SetWeight(c.Queue, c.Key, c.Weight) // 0 when it was taken back
		}
	}
}

// pauseOf names the pause of a queue, or of a key.
func pauseOf(queue string, key *string) controls.Thing {
	if key == nil {
		return controls.Thing{Kind: controls.QueuePause, Queue: queue}
	}
	return controls.Thing{Kind: controls.KeyPause, Queue: queue, Key: *key}
}

// Pause implements socket.Controls.
func (e engine) Pause(ctx context.Context, queue string, key *string) (*api.Paused, error) {
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	c, err := e.a.controls.Set(ctx, controls.Control{Thing: pauseOf(queue, key)})
	if err != nil {
		return nil, controlError(err)
	}
	return &api.Paused{Queue: queue, Key: key, Paused: true, Said: said(c)}, nil
}

// Resume implements socket.Controls.
func (e engine) Resume(ctx context.Context, queue string, key *string) (*api.Paused, error) {
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	if err := e.a.controls.Unset(ctx, pauseOf(queue, key)); err != nil {
		return nil, controlError(err)
	}
	return &api.Paused{Queue: queue, Key: key}, nil
}

// Weight implements socket.Controls.
func (e engine) Weight(queue, key string) (*api.KeyWeight, error) {
	def, ok := e.a.definition(queue)
	if !ok {
		return nil, unknownQueue(queue)
	}
	w := &api.KeyWeight{Queue: queue, Key: key}
	c, set := e.a.controls.Get(controls.Thing{Kind: controls.KeyWeight, Queue: queue, Key: key})
	if set {
		w.Said = said(c)
	}
	w.Weight, w.From = weightOf(def, c.Weight, key)
	return w, nil
}

// weightOf is the weight that counts for a key, and where it comes from; override is 0 unless there is one.
func weightOf(def config.Queue, override fairshare.Weight, key string) (weight float64, from string) {
	if override > 0 {
		return float64(override) / 1000, api.WeightOverride
	}
	if w, ok := def.FairShare.Weights[key]; ok {
		return float64(w) / 1000, api.WeightConfig
	}
	return 1, api.WeightMessages
}

// SetWeight implements socket.Controls.
func (e engine) SetWeight(ctx context.Context, queue, key string, w fairshare.Weight) (*api.KeyWeight, error) {
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	thing := controls.Thing{Kind: controls.KeyWeight, Queue: queue, Key: key}
	var err error
	if w > 0 {
		_, err = e.a.controls.Set(ctx, controls.Control{Thing: thing, Weight: w})
	} else {
		err = e.a.controls.Unset(ctx, thing)
	}
	if err != nil {
		return nil, controlError(err)
	}
	return e.Weight(queue, key)
}

// Purge implements socket.Controls.
func (e engine) Purge(ctx context.Context, queue string, key *string, most int, until uint64) (*api.Purged, error) {
	def, ok := e.a.definition(queue)
	if !ok {
		return nil, unknownQueue(queue)
	}
	if err := e.mayPurge(ctx, def); err != nil {
		return nil, err
	}
	got, err := e.a.client.Purge(ctx, def, broker.Purge{Key: key, Max: most, Until: until})
	log := e.a.log.With("queue", queue, "removed", got.Removed)
	if key != nil {
		log = log.With("key", *key)
	}
	if err != nil {
		log.Warn("a purge did not come to its end", "error", err)
		return nil, purgeError(err, got.Removed)
	}
	log.Info("purged")
	return &api.Purged{Queue: queue, Key: key, Removed: got.Removed, Until: got.Until, More: got.More}, nil
}

// mayPurge returns when a queue can be purged without harm to what is in flight. Where lanes hand out one message at a time
// that is only while the queue is paused, and all agents have heard of it.
func (e engine) mayPurge(ctx context.Context, def config.Queue) error {
	if !broker.NewLayout(def).Serial() {
		return nil
	}
	since, paused := e.a.controls.Since(pauseOf(def.Name, nil))
	if !paused {
		return &api.Error{
			Code:    api.CodeNeedsPause,
			Message: "queue " + def.Name + " hands out one message at a time, and is purged only while it is paused, so that nothing is taken from under its worker: pause it first, and resume it afterwards",
		}
	}
	select {
	case <-time.After(pauseSettles - since):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func said(c controls.Control) api.Said { return api.Said{Agent: c.Agent, At: c.At} }

// controlError translates why something could not be set.
func controlError(err error) error {
	switch {
	case errors.Is(err, names.ErrInvalidKey):
		return &api.Error{Code: api.CodeInvalidKey, Message: err.Error()}
	case errors.Is(err, controls.ErrInvalid):
		return &api.Error{Code: api.CodeInvalidWeight, Message: err.Error()}
	case errors.Is(err, broker.ErrOutcomeUnknown):
		return &api.Error{Code: api.CodeOutcomeUnknown, Message: "NATS did not answer in time: it may have been stored; ask again, saying it twice does no harm"}
	case errors.Is(err, bucket.ErrUnusable):
		return &api.Error{Code: api.CodeBroker, Message: "nothing can be set, because it is kept in the coordination bucket (" + err.Error() + "): run setup, or restart an agent that may make it"}
	}
	return brokerError(err)
}

// purgeError translates why a purge ended early.
func purgeError(err error, removed int) error {
	var e *api.Error
	if errors.Is(err, broker.ErrOutcomeUnknown) {
		e = &api.Error{Code: api.CodeOutcomeUnknown, Message: "NATS did not answer in time; ask again"}
	} else if !errors.As(brokerError(err), &e) {
		return err
	}
	return &api.Error{Code: e.Code, Message: fmt.Sprintf("%s (%d were removed before)", e.Message, removed)}
}

// queueControls shows what is set for a queue.
func queueControls(s controls.Settings) (c api.QueueControls) {
	if s.Paused != nil {
		c.Paused = &api.Said{Agent: s.Paused.Agent, At: s.Paused.At}
	}
	for _, k := range s.Keys {
		c.PausedKeys = append(c.PausedKeys, api.PausedKey{Key: k.Key, Said: said(k)})
	}
	for _, k := range s.Weights {
		c.Weights = append(c.Weights, api.SetWeight{Key: k.Key, Weight: float64(k.Weight) / 1000, Said: said(k)})
	}
	return c
}

// withoutEffect warns of what is set for keys that the queue does not tell apart.
func withoutEffect(def config.Queue, s controls.Settings) []string {
	paused, weights := len(s.Keys), len(s.Weights)
	if def.KeysApart() {
		paused = 0
	}
	if def.FairShare.Enabled || paused+weights == 0 {
		return nil
	}
	return []string{fmt.Sprintf("what is set for single keys has no effect (%d paused, %d weights): the queue does not share fairly", paused, weights)}
}

// keyStat shows a key with what is set for it.
func (e engine) keyStat(def config.Queue, k broker.KeyStats) api.KeyStat {
	s := api.KeyStat{Key: k.Key, Waiting: k.Waiting, InFlight: k.InFlight}
	c, _ := e.a.controls.Get(controls.Thing{Kind: controls.KeyWeight, Queue: def.Name, Key: k.Key})
	s.Weight, s.From = weightOf(def, c.Weight, k.Key)
	if def.KeysApart() {
		_, s.Paused = e.a.controls.Get(pauseOf(def.Name, &k.Key))
	}
	return s
}
