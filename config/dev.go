package config

import "path/filepath"

// Dev returns the configuration of a trial run whose files are all in one
// folder: an embedded JetStream in dir/jetstream, a queue "default" with the
// levels high, medium and low and fair share, a capsule "default" that reads
// it, and the sockets. It opens no TCP port. Each call makes a new agent id.
//
// The paths are not checked: with a long dir, dir/agent.sock can be longer than
// a socket's path may be.
func Dev(dir string) *Config {
	c := new(Config)
	rootTable.start(c)
	c.Agent.ID = randomID()
	c.Listen.Socket = filepath.Join(dir, "agent.sock")
	c.Listen.AdminSocket = filepath.Join(dir, adminSocketName)
	c.Listen.ProbesHTTP, c.Listen.DashboardHTTP = "", ""
	c.NATS.Embedded = new(Embedded)
	embeddedTable.start(c.NATS.Embedded)
	c.NATS.Embedded.StoreDir = filepath.Join(dir, "jetstream")
	c.Coordination.Bucket = defaultBucket
	c.Coordination.Replicas = 1

	var q Queue
	queueTable.start(&q)
	q.Name = "default"
	q.LevelNames = []string{"high", "medium", "low"}
	q.Levels = len(q.LevelNames)
	q.DefaultPriority = 1
	q.FairShare.Enabled = true
	c.Queues = []Queue{q}

	var capsule Capsule
	capsuleTable.start(&capsule)
	capsule.Name = "default"
	capsule.Queues = []string{q.Name}
	capsule.Concurrency = 1024
	c.Capsules = []Capsule{capsule}
	return c
}
