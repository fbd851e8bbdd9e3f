// Package embedded is a JetStream server inside the agent's process, for an agent that is to need nothing else, and the
// connection to it that does without a socket.
//
// A [Server] is one store folder in use. It can listen for other NATS clients or not; the agent itself always connects
// through [Server.InProcessConn], which nats.InProcessServer takes as it is.
//
//	nats.go ──write──> put down ──pump──> server
//	        <─────────────read──────────
//
// # Guarantees
//
//   - One store is written to by one server: the kernel holds the lock on its folder, and drops it when the process ends,
//     however that happens.
//   - What a connection was given to write reaches the server in order. At most 4 MiB are put down; then writes wait.
//   - [Server.Stop] waits until all is stopped, and can be called twice.
//
// # Non-guarantees
//
//   - A write that succeeded was put down, not read: a connection that breaks takes it along, as one over TCP would. A later
//     write tells.
//   - An acknowledged message is on disk within the sync interval, unless every write is to be synced.
package embedded
