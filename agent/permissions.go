package agent

import (
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/config"
)

// Permissions lists what an agent with this file needs in NATS when the streams were made by another identity, and what
// that other identity needs.
func Permissions(cfg *config.Config) (work, setup []rights.Permission) {
	n := names.New(cfg.NATS.Prefix, cfg.Coordination.Bucket)
	return rights.OfAgent(n, cfg.Queues), rights.OfSetup(n, cfg.Queues)
}
