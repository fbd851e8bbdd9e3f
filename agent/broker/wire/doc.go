// Package wire is how requests get to JetStream, and how its answers, its refusals and its silence are told apart. It knows
// JetStream's API, and nothing of queues.
//
// # Requests
//
// A [Wire] is one agent's line over its connection. What happens once for each message goes through a [Requester], without a
// goroutine each: [Wire.Writes] for what is stored and must be confirmed, [Wire.Deletes] for JetStream's API, of which the server
// works on little at a time. What happens seldom waits for its answer: [Wire.API], [Wire.Read], [Wire.Subjects], [Wire.Consumers].
//
// # Outcomes
//
//	answered                        the answer, or what JetStream has against it: [APIError], [FullError], [RefusedError], [ErrConflict]
//	nobody was there                [ErrNobody], [ErrUnavailable]: nothing was done
//	sent, and not answered in time  [ErrOutcomeUnknown]: it may have been done
//	refused by NATS                 [NotPermittedError]: nothing was done
//
// NATS does not answer what an identity may not ask: it says so apart from it. [Wire.Deny] is told, and ends the calls that wait.
//
// # Guarantees
//
//   - The outcome of each request is reported once, also when the connection breaks or the line is closed.
//   - A request that was not sent is never reported as unknown, and one that was sent never as not done, unless somebody says so.
//   - At most 64 deletes and other calls of JetStream's API of this kind are in flight, and 1,024 writes; the others wait in order.
//   - [Wire.Read], and what lists subjects and consumers, ask the leader: what was deleted is not shown.
//
// # Non-guarantees
//
//   - Nothing is repeated here: what may be, those know who ask.
//   - A request on a subject that NATS refuses is given up only half a second later: the refusal may be of another one.
//
// The texts of its errors begin with "broker", as those of package broker, which hands them on.
package wire
