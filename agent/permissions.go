package agent

import (
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// Permissions lists what an agent with this file needs in NATS when the streams were made by another identity, and what
// that other identity needs.
func Permissions(cfg *config.Config) (work, setup []broker.Permission) {
	names := broker.NewNames(cfg.NATS.Prefix, cfg.Coordination.Bucket)
	return names.AgentPermissions(cfg.Queues), names.SetupPermissions(cfg.Queues)
}
