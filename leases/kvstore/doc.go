// Package kvstore keeps leases in a JetStream key-value bucket.
//
// A [Store] is one record of the bucket. Reads go to the stream's leader (a direct read of a replica can be stale), writes
// are published with the revision that they expect, so that the leader decides. Watches are the bucket's own, which can
// fall silent when a server dies: whoever uses them polls as well. The watch also hears of the bucket's deletion from the
// server, where permissions allow that, and nearly always: a server that is busy can drop this advisory.
//
// # Guarantees
//
//   - Writes are linearizable, and so are reads while a stream has one leader.
//   - What the server has refused for good is told as what it is; all else that is not a success is an unknown outcome.
//
// # Non-guarantees
//
//   - A leader that has just been deposed may answer one more read with an old record. Claims are decided by writes.
//   - It uses the account's own JetStream, without a domain or another API prefix.
//   - Whether revisions can serve as fences is not looked at here: leases does, at every claim.
package kvstore
