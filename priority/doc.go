// Package priority decides which level of a queue is next, and by package
// fairshare which key of that level: strict priority, softened, where asked for,
// by a starvation guard.
//
// # Concepts
//
// A queue has levels, 0 the highest. A level has work while any of its keys is
// believed to have some. Strict order means that the highest level with work is
// always next. Inside a level, keys take turns by their weights.
//
// With a starvation guard of N, each level counts its deliveries since a lower
// one ran, while a lower one has work; the count stops at N. Deliveries of higher
// levels do not reset it. A level whose count is N yields one turn to the next
// lower level that has work, which applies the same rule to itself:
//
//	guard 10, waiting 20 high, 2 medium, 1 low:   H×10 M H×10 M L
//	guard 10, all three flooded, of each 121:     110 high, 10 medium, 1 low
//
// Picks are tentative until they are settled or refunded, as in fairshare, and
// so are the counts: a yield that brought nothing is due again at once.
//
//	        has work?             lowest pass?
//	Pick --> level 0 --guard-->   fairshare.Picker --> Turn{Level, Key}
//	         level 1              fairshare.Picker
//	         level 2              fairshare.Picker
//
// The [Queue] is a pure value: no clock, lock, goroutine, random number or
// logger. Its owner is one goroutine.
//
// # Guarantees
//
//   - Strict: without a guard no turn is picked from a level while a higher one is
//     believed to have work. A key that is held blocks rather than be overtaken.
//   - Guarded: while level l has work, l and those below it get at least one turn
//     in any (N+1)^l deliveries, l itself at least one in any 2(N+1)^l, because it
//     may have to pass one on. While a higher level has work, none gets two turns
//     in a row: a share, not a burst, however long or old its backlog.
//   - Fair inside each level, with the bounds of package fairshare, also across
//     the interruptions by other levels.
//   - Batches: turns that are picked together and then settled and refunded in
//     their order give what single takes would give, in that order. The one
//     exception is under Non-guarantees.
//   - Pick and Settle do not allocate. The cost does not depend on how many
//     messages wait. Levels without work cost nothing at a pick.
//
// # Non-guarantees
//
//   - What a level has is a belief. A level that is believed to have work until
//     it is asked counts as having it; the guard can then yield a turn in vain.
//   - In a batch, a yield to a level that turns out to be empty, while a still
//     lower one has work, is made good at the next pick, not at its place in the
//     batch: up to a batch of higher turns comes before it. Who needs the exact
//     order there too takes the batch back and picks one by one, with the
//     messages in hand; see DESIGN.md.
//   - The order of queues among each other is the caller's.
//   - Counts and passes start afresh with a new Queue.
package priority
