// Package rights says what an identity needs in NATS to run an agent with some queues, or to set them up, and nothing else. It is
// pure: it asks nobody.
//
// # Permissions and rights
//
// A [Permission] is what an operator writes into a NATS user: a direction, a subject, and what it is good for. [OfAgent] and
// [OfSetup] list them. A [Right] is the same for the check of access: it also says how to find out whether an identity has it,
// with a request of which nothing comes. Rights come in a [Group] for each stream.
//
//	queues ──> groups ──> rights ──┬──> permissions, to be printed
//	                               └──> tries, to be sent by the check of access
//
// Whoever makes the broker ask NATS for something new adds it here. Two tests notice when that was forgotten: one that runs agents
// with exactly these permissions, and one that takes each of them away.
//
// # Guarantees
//
//   - What [OfAgent] lists suffices for an agent that runs without setting its queues up; with [OfSetup], for one that does.
//   - A try changes and stores nothing, whoever sends it and whatever exists by then.
//   - [Right.Tried] is a subject that the right allows.
//
// # Non-guarantees
//
//   - What a wildcard allows is not narrowed down to one agent: agents of one account are not protected from each other.
package rights
