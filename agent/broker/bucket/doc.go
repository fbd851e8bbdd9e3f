// Package bucket is the coordination bucket: the few records that all agents of an account share, mirrored in memory. What the records
// mean is the business of those who write them: heartbeats and definitions, pauses and weights, attempts of returned messages, turns
// at a full queue.
//
// # A mirror and a watch
//
// A [Bucket] is read from memory, and written to JetStream. One watch feeds the mirror and all that subscribe; an agent's own writes
// count at once, before the watch shows them. [Bucket.Sync] waits until the mirror shows all that anybody had written before.
//
//	Put, Swap, Delete ──> JetStream ──watch──> mirror ──> Get, Subscribe
//	          └──────── confirmed ────────────────^
//
// [Bucket.Ensure] makes the bucket. Its revisions start at the present time in microseconds: they serve as fences, and a bucket that
// was deleted and made anew never repeats one.
//
// # Guarantees
//
//   - Of several that swap a record at the same revision one succeeds; the others get [ErrConflict], and nothing was written.
//   - A subscriber hears of each record under its prefix what is there, and then every change in its order; of several changes that came
//     while the watch was away, the last one. A record never goes back to an earlier revision, unless the bucket was made anew.
//   - The watch is opened again when it breaks, when NATS is back, when it falls behind a confirmed write, and when the bucket was
//     deleted or is there again; what was deleted meanwhile is told then.
//   - Revisions of a bucket made here only grow, over restarts and a new bucket too.
//
// # Non-guarantees
//
//   - [Bucket.Get] is a moment behind what others write. Decide by [Bucket.Swap].
//   - A write whose answer did not come may have been done: [wire.ErrOutcomeUnknown]. Nothing is repeated here.
package bucket
