// Package due keeps what is to be done at times to come, and gives it back when its time is there. It has no clock: whoever uses
// it says what time it is, so that a simulation can.
//
// # Guarantees
//
//   - The earliest comes first; of those for the same moment, the one that was added first, so that a run can be repeated.
//   - What was taken out is not held on to.
//
// # Non-guarantees
//
//   - A [Queue] is not safe for several goroutines.
//   - Nothing can be taken out before its time. Users look, when it comes, whether it still matters.
package due
