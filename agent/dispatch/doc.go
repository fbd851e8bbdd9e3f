// Package dispatch decides, for one capsule, which waiting message its app works on next, and takes it.
//
// A [Capsule] is one goroutine that owns everything that is decided: which queues, levels and tenant keys are believed to
// have work, whose turn it is, and which of the app's open pulls gets what. Everybody else talks to it through its mailbox.
// The decisions themselves are in the type core, which has no goroutine, no lock and no clock: events go in with the time
// at which they happened, questions to lanes and answers to pulls come out. The tests run core against a simulated broker.
//
//	app ──pull(max)──> credit ──> queues in list order ──> levels, strict ──> keys, fair ──> lanes
//	                                                                                         │ questions, all at once
//	app <──messages── pulls in order <── turns, in the order of the picks <── answers <──────┘
//
// # Credit
//
// Credit is how many messages the app has asked for and not got, at most the capsule's free slots. Nothing is taken
// without credit: a message never waits in one agent while another agent is idle, and new important work never stands
// behind less important work that was fetched early.
//
// # Rounds
//
// For each credit the schedulers name a (queue, level, key). The turns of a round become one question per lane, all sent
// at once. A lane that has less than it was asked for is believed empty; its unused turns are refunded, and the credit is
// picked again in the next round. Messages are handed over in the order in which their turns were picked.
// A lane that does not answer within half a second goes on without its round; a process that has stood still meanwhile first
// reads what has come.
//
// # Belief
//
// A lane is believed to have work when a wake-up for it arrives, when one of its messages was returned, or when a sweep
// lists it. How many messages it has left is known from its last answer, so that a lane that was emptied is not asked again
// in vain. A lane that answers with nothing right after a wake-up is asked again at once: JetStream tells its consumers of a
// message a moment after it has stored it. Where nobody else can have taken the message, that question stays open until it
// comes, for 50 ms at most, and the round with it. Where that was in vain (a purge removes messages) nothing of the queue is
// insisted on for five seconds. Else the lane is asked once more two milliseconds later, while others are
// served. A capsule that is idle waits a random moment before it asks a lane that was woken, if there are others who
// heard of it too; as soon as it asks for anything, it believes in all it heard of. A lane that answers with nothing
// although the sweep lists messages (somebody else has them, or they are backing off) is asked again at growing intervals.
// Before the first sweep of a queue has ended, nothing is taken from it, or from a queue behind it: what waited before is
// not to be overtaken by what a wake-up happens to tell of.
//
// # Single active consumers
//
// From a queue with a single active consumer a capsule takes only in a tenure, one message at a time; outside of one it
// skips the queue. A pull that does not wait, and is the first for long, stays open for a moment while the lease is claimed
// because of it. A message that is backing off is not overtaken in its lane. When the queue is to be handed over, nothing
// more is taken, and [Options].Idle is told when nothing is out.
//
// # What operators set
//
// A queue or a tenant can be paused, and a tenant's weight overridden, at any time. A paused queue is passed over: it is not
// asked, not swept, and its wake-ups are not heard; so when it is resumed it is swept before anything is taken from it. A
// paused tenant sleeps for the scheduler, while what is believed of its lanes is kept up to date.
//
// # Caps per key
//
// In a queue with a cap per key, each turn of a round needs a permit (package permit). They are wanted together, before the
// lanes are asked. A key without room is asleep at all its levels; a permit that comes free wakes it. A turn that gets no
// permit is refunded like one that brought nothing.
//
// # Guarantees
//
//   - While a higher queue or level is believed to have work, nothing lower is taken (but for the starvation guard).
//   - A pull of many gets what as many pulls of one would have got, in that order, as long as the weights of a key's
//     messages do not change in the middle of it.
//   - The weight of a key that is not known yet is learned from its first message before it gets a second turn.
//   - With work that is believed in and free credit, a question is under way. Work that is not believed in is found by the
//     next sweep.
//   - A message that was taken is handed to a pull, or returned; a pull that has ended gets nothing.
//   - After a pause was heard of, nothing is asked of what is paused. What is not paused is served as if that did not exist,
//     and nothing that is resumed gets more than its share.
//   - A message of a capped key is handed over only under a permit that is trusted at that moment, and the permit is freed when
//     the message is finished or back in its lane.
//   - A capped key holds up nothing of other keys.
//   - No question without an answer holds anybody up for longer than half a second.
//
// # Non-guarantees
//
//   - Order between agents: each agent is strict and fair by itself.
//   - Passes and guard counts start afresh with the agent.
package dispatch
