// Package permit keeps, for one capsule and one queue, the permits to have messages of a tenant key in flight: at most as
// many of a key as the queue allows, over all agents and levels.
//
// # Records, claims, releases
//
// The permits of a key are numbered from 0. Whoever has one has stored a record under the key and the number, which
// JetStream stores only where there is none (a compare-and-set on the last sequence of all holders' subjects of that
// number). Giving it back deletes the record. So the number of records of a key is the number of permits in use, nobody
// counts anything, and no claim can succeed that would make it one too many.
//
//	Want ──> claims, all at once ──stored──────────────────────────> Answer with permits
//	              └─────refused──> list the key's records ──> claims of free numbers, or: the key is full
//
//	idle ──Use──> used ──Free──> idle ──Trim──> releasing ──> gone
//
// A permit that was freed is used again here if the key has work, and released if not.
//
// # Beats, trust, dead holders
//
// A holder with permits stores a beat every quarter of the acknowledgement wait. It trusts its permits until three
// quarters of the wait after the last stored beat was sent. Others who see by their own clock that a holder's beat has not
// changed for the whole wait, and read at the stream's leader that it still has not, remove its records: up to a sequence
// that was known before that reading, so that what the holder claims after waking up is safe.
//
// A [Ledger] is a value: events go in with the time at which they happened, actions come out. It has no goroutine, lock or
// clock. One goroutine owns it.
//
// # Guarantees
//
//   - Of the permits of a key that are granted and trusted, over all holders, there are never more than the cap: whatever
//     is lost, late, repeated or answered with an unknown outcome, and across restarts of the servers.
//   - Every Want has exactly one Answer, a few round trips later at most.
//   - The permits of a holder that is gone can be had again one acknowledgement wait after its last beat.
//   - What was stored by a claim whose outcome is unknown is removed again.
//   - A key that nobody works on has no record and takes no memory.
//
// # Non-guarantees
//
//   - A holder that is cut off or paused for longer than the acknowledgement wait loses its permits while the application
//     may still be running: nothing can stop a handler. Its messages go to somebody else at the same time.
//   - When a cap is lowered, what is in flight stays in flight: until it is done there is more than the new cap, and
//     nothing is added. What was in flight before the first cap was set is not counted.
//   - Who gets a permit that many wait for is chance.
package permit
