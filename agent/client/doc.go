// Package client talks to a Fairlead agent over its Unix sockets.
//
// A [Client] is a socket path and a pool of keep-alive connections to it. Publishing is [Client.Publish] for one message
// and [Client.PublishBatch] for a stream of them. Working is a loop around [Client.Pull]: ask for as many deliveries as
// you can take, handle them, and hand their settlements to the next pull, which saves a request per batch:
//
//	var done []api.Settlement
//	for {
//		got, err := c.Pull(ctx, client.PullRequest{Capsule: "primary", Max: 64, Wait: 30 * time.Second, Settle: done})
//		if err != nil { … back off, then try again with the same settlements … }
//		done = done[:0]
//		for _, d := range got.Deliveries {
//			done = append(done, api.Settlement{Token: d.Token, Result: handle(d)})
//		}
//	}
//
// A [Session] ties deliveries to a connection that is held open: when the process dies, the agent gives all of them to
// somebody else at once, instead of when their leases end.
//
// Errors are of three kinds. An [*api.Error] is the agent's own answer. [ErrNoAgent] means that nobody listens on the
// socket: nothing was asked. [ErrConnectionLost] means that the agent went away before it answered: what was asked may or
// may not have happened. Whatever ended because its context ended matches context.Canceled or context.DeadlineExceeded.
//
// # Guarantees
//
//   - A Client may be used by any number of goroutines.
//   - Nothing is retried behind the caller's back, so a publish is stored at most once per call. (The standard library
//     repeats a request only on a connection that was closed before any of it was sent.)
//   - What is read from the agent is bounded, see [MaxAnswer].
//   - Frames and NDJSON yield the same deliveries.
//
// # Non-guarantees
//
//   - There is no time limit but that of the context.
//   - After [ErrConnectionLost], settlements should be sent again: a repeated one is answered with already_settled.
package client
