// Package worker runs a command for each message of a capsule.
//
// A [Worker] has a number of slots. Each slot pulls one message, runs the command with the payload on its stdin and the
// metadata in FAIRLEAD_* variables, and tells the result with its next pull: exit code 0 is an ack, anything else a nack with
// the code and the last line of stderr as the reason. All pulls name one session, which is held open beside them.
//
//	slot:   pull ──► run command ──► pull (with the result) ──► …
//	                    │ every third of the lease: extend
//	session: ───────────┴── revoked: the command gets SIGTERM, its result is not told
//
// # Guarantees
//
//   - Never more than Options.Concurrency commands run.
//   - A message is acknowledged only after its command exited with 0.
//   - A worker that is killed gives everything back at once: its session breaks. On Linux its commands get SIGTERM then.
//   - An agent that goes away is asked again, with growing pauses, for ever.
//
// # Non-guarantees
//
//   - A command whose agent dies while it runs is not ended: the message is delivered again, maybe to this worker, and the
//     command runs a second time.
//   - What a command leaves running in the background is not waited for.
package worker
