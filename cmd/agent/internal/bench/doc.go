// Package bench measures an agent beside a bare JetStream loop on the same server, in one run.
//
// A row takes a backlog of 256-byte messages and finishes each of them. The bare row pulls 64 at a time from one consumer
// and deletes each message with a confirmed delete, 64 of them in flight: what an agent has to do at the least, since for it
// as well a message is finished when its delete is confirmed. The other rows do the same through an agent's app socket, with
// pulls of 64 whose settlements ride in the next pull. [Run] then measures the time from publish to delivery of single
// messages, and the cost of a take with few and with many messages waiting.
//
// The profile of a noisy neighbour has one tenant flood a queue before ten quiet ones begin to publish, and a worker that is
// slower than the flood on purpose: how long the quiet ones wait, and how much the worker got of whom, with an agent and with
// one consumer that reads in the order of arrival. The profile of many agents shares one queue among more and more of them, and
// counts what each tenant got. [Profiles] lists all.
//
// A [Report] keeps every round. It can be drawn ([Report.WriteSVG]) and compared with an earlier one ([Compare]).
//
// # Guarantees
//
//   - Both kinds of rows use the same server, the same kind of stream (file storage, S2, limits retention) and the same
//     kind of connection to it.
//   - Every message counted was delivered and its end confirmed; anything else is an error, not a number.
//   - Rows alternate over the rounds and the median counts, because machines are noisy. Ratios to the bare loop are made
//     round by round when reports are compared, and a difference counts only when all rounds agree on it.
//
// # Non-guarantees
//
//   - Figures of two machines, or of two moments of one, cannot be compared. Ratios within one run can.
package bench
