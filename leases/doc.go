// Package leases is the right to be a queue's single active consumer: of all candidates at most one holds it, someone
// always gets it, and each time that it is held has a number, the fence, which only grows.
//
// # Concepts
//
// A lease is one record in a store that can compare and set: who holds it, until when that can be relied upon, and who
// had it before. A candidate wants the lease while it has demand. A tenure is one time of holding it, from a claim to its
// end. The fence is the revision of the claim; renewals carry it along, so that it stays the tenure's number. What an
// application writes to can remember the highest fence it has seen and refuse lower ones.
//
// A holder trusts its lease until
//
//	(time when the last acknowledged write was sent) + 2/3 TTL
//
// and renews every TTL/5. A standby claims when the record says that it was released, or when it has been unchanged for
// the holder's TTL since this standby first saw it. Both use their own monotonic clock, never another's, and never the time
// of day. A write lands after it was sent and is seen after it landed, so trust ends a third of the TTL before anyone
// else's patience does: that third is what the clocks may differ in speed. The end of trust does not depend on when an
// answer came: a slow success never extends it.
//
//	           wanted                  claim landed, trust not over
//	┌──────┐ ──────────> ┌─────────┐ ──────────────────────────────> ┌─────────┐ ──┐ renewed
//	│ idle │             │ standby │                                 │ holding │ <─┘ every TTL/5
//	└──────┘ <────────── └─────────┘ <────────────────────────────── └─────────┘
//	   ^      unwanted      expired, replaced, vanished, handed over   │     ^ │
//	   │                                                               │     │ │ a higher candidate has come
//	   │        released: trust ends first, then the record is written │     │ v to stay: nothing more is
//	   └───────────────────────────────────────────────────────────────┘  yielding   handed out; Idle hands over
//
// While the connection is away, and after it came back until the record was seen again, a holder keeps its tenure (what
// runs may be settled) but hands nothing out. A tenure whose trust has passed is over for good: the same candidate may
// claim again at once, with a higher fence.
//
// Answers can be lost, late, repeated, out of order, or wrong about a conflict. No answer, and "conflict", mean that it
// is not known whether the write was carried out: the record is read again, and the write is recognised by its nonce
// and number, however late it turns up.
//
// [Machine] decides all of this as a value: it takes events and the time, and returns actions and the next deadline.
// [Runner] is its shell: one goroutine, one timer, asynchronous calls to a [Store]. Package memory is a store with faults
// for tests, package kvstore is JetStream's; storetest has the contract that both pass.
//
// # Who holds it
//
// The live candidate with the highest priority. Standbys give way for a moment (a hundred milliseconds) to a higher one
// and then claim all the same. A holder that has seen a higher candidate for a time hands over between two messages: it
// names the successor in the record. If that one does not take it, the next attempt waits twice as long.
//
// # Guarantees
//
//   - Tenures never overlap: [Runner.Trusted] is true in one candidate at most, whatever is lost, late or repeated, as long
//     as monotonic clocks differ in speed by less than a fifth.
//   - Fences grow from tenure to tenure, over releases, crashes and deleted records, and in a bucket that was made anew with
//     revisions from the clock. Revisions that do not come from a clock are refused, with the reason.
//   - A timeout or a false conflict does not end a tenure whose record is still its own, while it is trusted.
//   - Never nobody: a standby claims after a release at once, after a crash when the TTL has passed, also when its watch
//     has fallen silent. A write that was carried out although nobody was told is adopted, or released.
//   - A holder ends its tenure at once when it learns that the record was replaced or deleted, or that the bucket is gone.
//   - A machine is deterministic and does nothing on its own. The hand-over check of the runner takes no lock.
//
// # Non-guarantees
//
//   - A lease does not stop a paused process, nor an application that works on what it was given before: only a fence that
//     is checked where the effects happen does. Between the check and the write to the application there is a moment, too.
//   - A machine that is suspended, or moved as a snapshot, may stop its monotonic clock: after that only the fence protects.
//   - A candidate that first looks after someone deleted the record or the whole bucket cannot know of a holder that has
//     not noticed yet (at most TTL/5 when its renewals get through). Candidates that were there before wait, by the longest
//     TTL that they have seen.
//   - Fences in a bucket that is made anew after the server's clock was set back are refused by those who remember higher
//     ones; others cannot know.
//   - Nothing is fair among equal candidates: the first to claim holds.
//   - Takeover after a crash takes the TTL, however clear the crash may look from outside; DESIGN.md says why.
package leases
