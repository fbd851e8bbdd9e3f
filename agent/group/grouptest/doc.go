// Package grouptest is a coordination bucket in memory, for tests of what is built on one.
//
// A [Store] is the bucket, a [Mirror] is one agent's view of it with the methods of the real one. Writes and the watch can
// be slow, lost, repeated or of unknown outcome, as a test says. With testing/synctest all waiting is instant.
//
// Guarantees: revisions grow by one per record written; each mirror sees records in the order of their revisions, but for
// its own writes, which it sees when they are confirmed; as in the real bucket, a deleted record leaves a mark on which
// Swap with revision 0 fails.
//
// Non-guarantees: marks are never removed, and a mirror's subscriptions never end.
package grouptest
