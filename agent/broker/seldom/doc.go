// Package seldom logs what can happen with every message without filling the log: the same sentence once in half a minute, with the
// number of times that it was left out.
//
// # Guarantees
//
//   - A sentence that was not said for half a minute is logged at once.
//   - At most 256 sentences are remembered.
//
// # Non-guarantees
//
//   - Details that differ do not make another sentence: those of the first time are logged.
package seldom
