package agent

import (
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Permissions lists what an agent with this file needs in NATS when the streams were made by another identity, and what
// that other identity needs.
func Permissions(cfg *config.Config) (work, setup []broker.Permission) {
	n := names.New(cfg.NATS.Prefix, cfg.Coordination.Bucket)
	return broker.AgentPermissions(n, cfg.Queues), broker.SetupPermissions(n, cfg.Queues)
}
