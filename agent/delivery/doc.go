// Package delivery keeps the book of what apps have in their hands: every message that was handed to an app and is not
// settled yet.
//
// # Concepts
//
// A delivery is one hand-over of one message to one app. Its name is a token: opaque, made of a random number of this
// book and a counter, so that no other agent and no earlier run has made the same one. A delivery has a lease, the time
// the app has to settle or extend it, and may belong to a session, which is what lives as long as a connection of the
// app. A message that leaves an app's hands is either finished (deleted from its stream) or given back to its lane.
//
//	        ack             Finished, AlreadyFinished
//	live --------> finishing ------------------------> settled
//	 | ^               |
//	 | +---------------+ FinishUnknown: still live, ask again
//	 |
//	 | nack, reject                 given back, or given up
//	 +-------------> giving back -------------------------> settled
//	 |
//	 | lease over, session ended, answer not written, drained
//	 +-------------> expired (and given back)
//	 |
//	 | the tenure of a queue with a single active consumer is over
//	 +-------------> lease lost (and left to the next holder)
//
// What fails in its last attempt, and what its app rejects, is not given back but given up: it is buried. While the dead
// letters cannot be stored it goes back with that verdict and the longest backoff; whoever takes it next buries it.
//
// The words of the socket API (settlements and their statuses) are those of package api. Settled and expired tokens are
// remembered, two bits each, so that a second ack can be told from a stranger's.
//
// # Guarantees
//
//   - Of any number of acks of one token, also at the same time, at most one is answered ok, and only after JetStream
//     confirmed the delete.
//   - A slot is released exactly once per message handed over, after the outcome is known.
//   - A lease ends at its deadline, not sooner; a settlement that is being carried out is not expired under it.
//   - Messages that are given back for one cause (one session, one instant of expiry, one settle call) go back in
//     ascending order of their sequences, one call after the other.
//   - A nack's delay and the backoff are never shortened.
//   - A reject, and the nack of a last attempt, are answered ok only after the message was moved to the dead letters, or
//     dropped where none are kept. A reject that could not be carried out is answered unavailable.
//   - While a delivery is alive, JetStream is told so every third of the message's AckWait.
//   - A settled token is known for at least ten minutes. At 30,000 deliveries a second that takes less than 10 MiB.
//   - What was handed out in a tenure that is over is not settled: its app is told, by a session event at once and by the
//     status lease_lost when it asks. Nothing is handed out in a tenure that is not trusted at that moment.
//   - No lock is held while a Broker, an Owner, a Retry or an Observer is called.
//
// # Non-guarantees
//
//   - Delivery is at least once: a message whose lease ended may still be worked on by an app that was too slow.
//   - What was not given back, because JetStream could not be reached, comes back when its AckWait is over, and counts
//     only by JetStream's own delivery count.
//   - Nothing survives the process: another run answers unknown to this one's tokens.
package delivery
