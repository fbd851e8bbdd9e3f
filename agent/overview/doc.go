// Package overview takes snapshots of an agent for people who look: the dashboard, and the command line's top.
//
//   - A [Ledger] hears of every delivery and keeps, while somebody looks, what each tenant got since it was asked last.
//   - A [Watcher] takes an [api.Overview] every so often while somebody looks, and keeps the last one for all who do. It asks
//     JetStream what the queues hold, takes what the ledger has, and lets package trend make rates and shares of both.
//
// Somebody looks as long as a [Watcher.Watch] was not given up, and for [Linger] after a [Watcher.After].
//
// # Guarantees
//
//   - While nobody looks no server is asked, no goroutine runs, and a delivery costs one read of a flag.
//   - However many look, one overview is taken per interval, and it is encoded once.
//   - The pause after an overview grows with what it took: it takes a tenth of the time at most,
//     and a third when one takes longer than a second.
//   - The answer is bounded: [MaxRows] tenants in all queues together, and at least [LeastRows] of each.
//   - A queue that cannot be looked at is shown as it was, with the time when it was so, and does not keep others from being
//     shown.
//
// # Non-guarantees
//
//   - Deliveries are those of this agent, since somebody began to look. What waits is all agents'.
//   - The numbers of one overview were read one after the other.
package overview
