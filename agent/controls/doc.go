// Package controls is what operators set for all agents at once: which queues and tenants are paused, and which weights
// override those of files and messages.
//
// # Records
//
// Each thing that is set is one record of the coordination bucket, and is not set when there is no record:
//
//	pause.<queue>            the queue is paused
//	pause.<queue>.<key>      the tenant is paused in that queue
//	weight.<queue>.<key>     the tenant's weight in that queue
//
// The key is encoded as in subjects ([names.EncodeKey]); "_" is the tenant of messages without a key. A record says which
// agent wrote it and when, for people; nothing is decided by that. For a pause the record is all there is to it, whatever
// it holds. So the order of writes in the bucket is the order of what operators said, and nothing has to be merged.
//
//	admin socket ──> Store.Set, Store.Unset ──> bucket ──> every agent's mirror ──> state ──> Follow
//
// A [Store] keeps the state that the mirror has shown, and tells a follower of each change, one at a time and in order.
//
// # Guarantees
//
//   - Set and Unset return nil only after the bucket has confirmed the write, and then this agent's follower was told.
//   - Agents that have seen the same records have the same state, in whatever order records of different things came.
//   - What is set survives restarts of agents and of the server.
//   - No byte of a key reaches a record's name.
//   - While the bucket cannot be read, what was known last holds.
//
// # Non-guarantees
//
//   - Agents follow when their mirror does: usually in milliseconds, seconds after the connection or a watch broke.
//   - When the bucket is deleted and made anew, everything that was set is gone.
//   - An agent that starts while the bucket cannot be read knows of nothing that is set until it can.
//   - After an error of Set or Unset other than [ErrInvalid], the write may have been carried out; saying it again is safe.
package controls
