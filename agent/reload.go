package agent

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/fairlead/fairlead/config"
)

// Reload takes over a file while running: whole, or not at all. Queues' definitions can change (they come into force by
// the rules of the group), and so can concurrency and lease of capsules and the drain timeout. An error wraps [ErrReload]
// and names what needs a restart.
func (a *Agent) Reload(cfg *config.Config) error {
	a.mu.Lock()
	old := a.cfg
	if fixed := needRestart(old, cfg); len(fixed) > 0 {
		a.mu.Unlock()
		err := fmt.Errorf("%w: %s cannot change while the agent runs; restart it, or take the change back", ErrReload, strings.Join(fixed, ", "))
		a.numbers.Reloaded(err)
		return err
	}
	a.cfg = cfg
	a.mu.Unlock()
	for _, c := range cfg.Capsules {
		a.capsules[c.Name].SetConcurrency(c.Concurrency)
	}
	a.group.Reload(cfg.Queues, groupCapsules(cfg))
	a.numbers.Reloaded(nil)
	a.log.Info("the file was taken over")
	return nil
}

// needRestart names what differs and cannot change live.
func needRestart(old, new *config.Config) []string {
	var fixed []string
	check := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			fixed = append(fixed, name)
		}
	}
	check("agent.id", old.Agent.ID, new.Agent.ID)
	check("agent.poll_interval", old.Agent.PollInterval, new.Agent.PollInterval)
	check("nats", old.NATS, new.NATS)
	check("listen", old.Listen, new.Listen)
	check("coordination", old.Coordination, new.Coordination)
	check("log", old.Log, new.Log)
	check("metrics", old.Metrics, new.Metrics)
	check("readiness", old.Readiness, new.Readiness)
	check("the list of queues", queueNames(old), queueNames(new))
	check("the list of capsules and their queues", capsuleQueues(old), capsuleQueues(new))
	return fixed
}

func queueNames(c *config.Config) (names []string) {
	for _, q := range c.Queues {
		names = append(names, q.Name)
	}
	return names
}

func capsuleQueues(c *config.Config) (list []string) {
	for _, cc := range c.Capsules {
		list = append(list, fmt.Sprint(cc.Name, cc.Queues, cc.ConsumerPriority, cc.SingleActiveConsumer))
	}
	return list
}
