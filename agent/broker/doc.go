// Package broker is Fairlead's side of NATS JetStream: where queues are stored, how messages are taken from them, and
// how they are finished or given back. Nothing outside this package and those in its folder knows a subject, a stream or a
// consumer by name. What stands on its own is in a package of its own there:
//
//	names       what streams and subjects are called, and how a key becomes a token
//	wire        how requests get to JetStream, and what its answers and its silence mean
//	bucket      the coordination bucket: the records that agents share, mirrored in memory
//	rights      what an identity may need in NATS, and how to find out whether it has it
//	credentials how the agent signs in
//	embedded    the JetStream server inside the agent's process
//	seldom      logs what can happen with every message
//
// Here are queues: their streams and lanes, and what becomes of a message. By file:
//
//	client, errors, metrics, counts                            an agent's side of it
//	stream, delaystream, deadstream, sources, perkey, access   streams: made, changed, checked
//	layout, lanes, lostlane, lanecounts, lanereports, former   lanes
//	tenure, succession                                         lanes of a single active consumer
//	wake, sweep                                                where there is work
//	feed, feed_fresh, head, decode, message, hold              taking
//	finish, attempts, unwritten, expiry                        finishing and returning
//	publish, publication, compress                             publishing
//	delay, delayed, mover, move, copies, overdue               messages for later
//	dead, deadletter, deadshelf, deadretry, bury               giving up
//	ring, rings, turn, hunt, scout, marks, room                full queues
//	permits                                                    caps per key
//	peek, stats, tally, oldest                                 looking
//	repair, scan, origin, purge                                repairing and removing
//
// # Queues, lanes, wake-ups
//
// A queue is one stream. A message's subject says its level and its tenant key:
//
//	fl.q.<queue>.p<level>.<key>     a message with a priority
//	fl.q.<queue>.d.<key>            a message without one: served at the queue's current default level
//
// A [Lane] is what one pull consumer reads: one level, or, when the queue shares fairly, one (level, key). Lane consumers
// are shared by all agents under a name made from the layout of the queue, the level and the key. They are made when they
// are first asked, forgotten by the server when nobody asks for half a minute, and made again when they are lost.
//
// The stream republishes every message's headers on fl.wake.<queue>.…, which is how agents hear of new work at once. The
// [Client.Sweep] lists the subjects that hold messages, which is how nothing is ever missed.
//
//	publisher ──> stream FL_Q_orders ──republish──> wake-up ──> agents
//	                    │
//	                    ├── lane p0/acme ──pull, no wait──> Feed ──> dispatcher
//	                    └── lane p0/globex …
//
// In a queue with a cap per key, [Permits] keeps the records that say who may have messages of a key in flight; what they
// mean is in package permit.
//
// # Taking, finishing, returning
//
// A [Feed] asks lanes for messages without waiting and reports one [Answer] per question. A message is finished by
// deleting it from the stream, and the deletion is confirmed before anybody is told; it is returned by a negative
// acknowledgement, after its attempts and its not-before time were written to the coordination bucket.
//
// # Payloads
//
// A payload can rest compressed, marked by Content-Encoding: gzip; [Message.Payload] gives back what was published. Whatever
// moves a message keeps its payload and that header together, as they are.
//
// # Delayed and expired messages
//
// A message for later waits in a stream of its own, FL_DELAY_<queue>, as a JetStream message schedule. When its time has
// come, JetStream stores it again on a subject of due messages, from where [Client.MoveDelayed] moves it into the queue. A
// message that has expired is removed when it is taken; JetStream's own removal comes a day later, as a backstop.
//
//	at.<level>.<key>.<handle> ──its time──> due.<level>.<key>.<handle> ──a mover──> fl.q.<queue>.<level>.<key>
//
// # Giving up
//
// A message that failed too often, or that its app rejected, is buried: see [Client.Bury]. The verdict goes to its record,
// the dead letter to the stream FL_DEAD_<queue>, and then the message is deleted. [Client.DeadLetters] shows what lies
// there, [Client.RetryDeadLetter] puts it back as a new message.
//
//	taken ──Bury──> verdict ──> dead letter stored ──> deleted from the queue
//	                   │ whoever takes it from here on completes the move and does not hand it out
//
// # Looking and repairing
//
// [Client.Peek] and [Client.Stats] look at a queue without taking from it, and ask the stream's leader. What raw
// publishers put on subjects that no lane reads, a sweep finds, and [Client.Repair] moves to where it belongs: the copy is
// stored first, once, and only then the original is deleted. [Client.Purge] removes what waits: it takes from lanes and then
// deletes, so that it never removes what somebody has in hand.
//
// # Tenures
//
// The lanes of a queue with a single active consumer belong to a [Tenure] and carry its fence in their names. They are serial:
// one message at a time, and one that is backing off is not overtaken. Before the first of them is made, what the holder
// before left behind is counted as attempts and removed.
//
// # Sources
//
// A queue is fed from other streams by JetStream itself: a source of the queue's stream, whose transforms write the subjects
// of lanes. What such a subject cannot say (a token that is no key as it stands, a > that stands for many tokens) a repair
// makes good, once.
//
// # Full queues
//
// JetStream refuses what does not fit ([FullError]). With overflow: ring the publishing agent then makes room: a hunt
// decides who has to go and takes them through their lanes, so that they are in nobody else's hands, and only then they are
// deleted and the newcomer is stored. Agents take turns at that, by a record in the bucket.
//
//	publish ──refused──> turn ──> hunt: look, take ──> delete ──> publish
//
// # Permissions
//
// What an agent's identity needs in NATS is listed by package rights, and [Client.CheckAccess] tries it. NATS does not answer a
// request that it refuses: it says so apart from it, and whoever waits for the answer gets a [NotPermittedError] that names what is
// to be allowed.
//
// # Guarantees
//
//   - No limit is overshot, and what was accepted is stored. What a full queue evicts was waiting: it was in nobody's hands,
//     and did not back off. As many are evicted as newcomers needed room, and they are the oldest of the lowest levels.
//   - A message that was stored is finished only by [Client.Finish] or [Client.Bury], evicted, or removed by
//     [Client.Purge]; a crash at any moment leaves it in the stream.
//   - A message that was given up has one dead letter, whatever crashes in between, or none where none are kept; it is not
//     handed out any more, as long as the bucket is there. A message whose agents died with it as often as it may be tried is
//     given up when it is taken next.
//   - A dead letter is taken out only after its copy was stored.
//   - [Finished] is reported at most once per message, whoever finishes it, unless the connection broke over a finish: then
//     the one who repeats it takes the credit, even if somebody else was faster.
//   - Every question to a lane gets exactly one answer, also when the connection breaks or the lane is lost.
//   - A message that arrives for a question that was given up is reported or returned, never dropped.
//   - No byte of a key changes a subject's number of tokens, a filter or a consumer's name: keys are encoded reversibly
//     and injectively ([names.EncodeKey]).
//   - What was taken in a tenure that is over is neither finished nor returned, and leaves no record.
//   - A returned message is not delivered before its not-before time, also when its lane was made again or the server
//     restarted, as long as the bucket is there.
//   - A delayed message enters its queue once, and not before its time, also when agents or the server die in between; see
//     [Client.MoveDelayed] for how, and for what is left.
//   - A cancelled message is not delivered: [Client.CancelDelayed].
//   - An expired message is not admitted. One that somebody runs is not removed for 24 hours after it expired.
//
// # Non-guarantees
//
//   - A lane that is made again starts at the oldest message still in the stream, running work included. This agent
//     recognises its own; work that another agent is running at that moment can be delivered a second time, or be removed if
//     it has expired: its ack is told that it was finished before.
//   - Between agents, returned messages come back in the order in which JetStream received the returns.
//   - An id suppresses duplicates among messages that were published at once, and among those for later, not across the two.
//   - A repair stores one copy as long as whoever repeats it does so inside the queue's dedup window. In a queue that is
//     full of nothing but messages on unusable subjects it has no room to work; raise the limit for a moment.
//   - After a crash of the server, events of a source that were taken within about two minutes before can come again, also
//     when they are finished. A source whose level or key is changed can bring what it takes in that instant twice.
//   - After a lane was made again, what another agent is running looks as if it waited, to an eviction too: that agent
//     finishes its work, and is told that the message was finished before.
//   - Of several messages that were returned to one lane, the one that was returned first is the first to be evicted. What a
//     dead agent had counts as waiting within a second after its acknowledgement wait, or after everything else of its level
//     has gone. Without the bucket, two
//     agents that make room at the same moment may evict from a level that is not the lowest.
//   - A retry that was cut off and is repeated after the queue's dedup window stores a second copy. A move that was stalled
//     for more than ten minutes, and whose dead letter was retried or purged meanwhile, stores it a second time.
//   - An acknowledged write is on disk within the server's sync interval, not at once.
package broker
