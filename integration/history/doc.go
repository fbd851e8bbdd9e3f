// Package history records what apps of several agents saw of their queues, and judges it: a record of who had which
// message when, under which fence, and what became of it.
//
// All apps of a test run in one process and write to one [Log], so all times are of one monotonic clock. What is recorded
// lies inside what happened: a hand-over is noted after it was received, a handler's begin before it begins and its end
// after it has ended. So intervals that overlap in the record overlapped in truth.
//
// # Checks
//
//	Fences      fences are there, never fall from one hand-over to the next, and each belongs to one agent
//	Overlaps    never two handlers of one queue at the same time
//	Order       in each lane, messages come for the first time in the order in which they were stored
//	Overtaking  in each lane, nothing comes while an earlier message that has come is unfinished
//	Loss        what was stored was finished, or is left, or is a dead letter; nothing of it twice
//	Duplicates  nothing comes again without a reason, and nothing after its ack was answered with ok
//	SharedDuplicates  the same of a queue that many share: a rebuild of its lanes may bring what was unfinished then once more,
//	            and nothing comes a second after it was finished
//	SharedLoss  Loss, but that an ack over which the connection broke may be answered with ok for somebody else's work
//	Sink        what remembers the highest fence and refuses lower ones was never made to accept a lower one
//
// [History.Silence] is how long nobody worked, which tests compare with what they promise.
//
// # Guarantees
//
// Every check is tested with a record that it must fail on. Answers that did not arrive count as unknown: a message whose
// ack was asked for and not answered may be finished or come again.
//
// # Non-guarantees
//
// A check says nothing of what was not recorded. A late app's note of a hand-over can come after an event that it preceded, by as
// long as a busy machine lets a goroutine wait.
package history
