// Package agent puts Fairlead together: the connection to NATS, the capsules that decide who is next, the book of what apps
// have in their hands, the group of agents that serve the same queues, and the two sockets.
//
//	app socket ──┬─ publish ──────────────────────────────> broker ──> JetStream
//	             ├─ pull ──> dispatch (one per capsule) ──> broker
//	             └─ settle ─> delivery (the book) ────────> broker
//	admin socket ── status, drain          group: heartbeats, definitions in force
//	             └─ pause, weight, purge    controls: what operators set
//	                                       leases: who is a queue's single active consumer
//	TCP          ── /livez, /readyz, /metrics
//	tracing      spans of publishes and deliveries, if the environment asks for them
//
// The parts do not know each other; what connects them is here. An [Agent] is started once and stopped once.
//
// # Guarantees
//
//   - /livez answers from before NATS is looked for until the very end of Stop; /readyz says whether apps are served.
//   - Start returns when the sockets answer. If NATS is away then, publishes are told and pulls wait until it is back.
//   - The definition of a queue that is in force is put into effect before the first message is taken, and whenever it
//     changes: first the stream, then the capsules.
//   - A capsule takes from a queue with a single active consumer only while it holds that queue's lease; it stands for it
//     while it has demand, and releases it as soon as nothing is in flight when it drains. When the queue has none any more, the
//     lease is kept until what apps got under it is settled.
//   - Drain takes nothing more, lets apps settle, and gives back the rest. Publishing works until the sockets close.
//   - After Stop no goroutine and no socket file of the agent is left, and what apps held has gone back.
package agent
