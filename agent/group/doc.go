// Package group is how the agents that serve the same queues know of each other, and which definition of a queue is in
// force among them.
//
// Everything is kept in the coordination bucket and mirrored in memory. A [Group] belongs to one agent; one goroutine owns
// its state, takes in what the bucket, the agent and the clock say, in order, and shows readers immutable pictures.
//
// # Heartbeats, peers, demand
//
// Each capsule of an agent has a record, hb.<agent>.<capsule>, written every interval, and within 100 ms when its demand
// changes. It says which queues the capsule serves, with which consumer priority, whether an application is asking for
// work (demand), whether that dies again and again with what it gets (failing), and, by revision and hash, which definitions the agent's file has: the agent carries them.
//
//	          the record changes
//	        ┌──────────────────────┐
//	        v                      │
//	──> live ──unchanged for───> stale ──unchanged for an hour──> the record is deleted
//	        │    stale_after
//	        └──the record is deleted (clean stop)──> gone
//
// Time is the observer's own monotonic clock; no clock of another machine is ever compared. Before a peer is called stale,
// the mirror is brought up to date with everything that was stored up to that moment, so that a watch that fell silent, or
// this agent's own pause, does not make others look dead. A time in which the bucket could not be used does not count.
//
// An agent's boot nonce tells one run of it from the next. An agent that finds a record under its id takes it over: its
// predecessor has crashed. If another run goes on writing under the id, then the one that was born later (by the revision
// of its first heartbeat) gives way and says so on [Group.Conflict].
//
// # Definitions
//
// The record def.<queue> has the definition in force. Agents can have different files:
//
//	nothing in force                                      this agent's file is put in force
//	the file says the same                                nothing to do
//	the file has a higher revision                        it is put in force
//	another definition, which a live agent carries        this agent follows it, and warns
//	another definition, which no live agent carries       this agent's file is put in force
//	another one that this version cannot use, but carried this agent keeps to its own file, and warns
//
// When several files could be put in force, it is left to the live agent with the highest revision.
//
// A definition is put in force by compare-and-set, after a heartbeat that carries it was stored (else it would look like
// nobody's) and after everything that was stored has been seen (else live carriers look gone). The loser of a race looks
// again, and follows. Until the record is written, the old one holds. So a lone agent after an edit just works, a rolling
// deploy ends with the new file in force once the last agent with the old one has gone, and raising the revision makes a
// file win at once.
//
// # Guarantees
//
//   - Agents that see the same bucket, and can use the definition in force, agree on it.
//   - A definition in force that a live agent carries is replaced only by one with a higher revision.
//   - One start, stop, crash or edit of one agent changes the definition in force once at most; without any, it does not
//     change.
//   - A peer that stops cleanly is gone as soon as the watch tells; one that dies is gone stale_after after its last
//     heartbeat was seen, plus one round trip.
//   - A lost, late, repeated or unanswered write is settled by looking again. None of them changes what is decided.
//   - Of several live agents with one id all but the first born are told.
//
// # Non-guarantees
//
//   - For a moment after a change, agents can have different definitions.
//   - Liveness is an opinion: an agent that is paused or cut off for longer than stale_after counts as gone although it
//     may come back, and its definition may be replaced meanwhile; a higher revision then wins again.
//   - While the bucket cannot be used, nobody is seen to come or go.
//   - Agents of different versions can hash one file differently; the older then warns of the newer. An agent whose version
//     cannot use the definition in force runs another one than its peers.
//   - When the bucket is deleted and made anew, the first agent to write puts its definition in force.
package group
