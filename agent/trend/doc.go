// Package trend turns what a queue holds and what its tenants got, sample by sample, into what people look at: rates, shares
// against weights, and whether the quiet tenants suffer from the noisy ones.
//
// A [Sample] says what waited at a time, tenant by tenant, and what was delivered since the sample before. A [Queue] keeps the
// samples of the last [Window] and returns a [View] of them. Both are values: there is no clock, goroutine or lock in here.
//
// # Words
//
//   - A tenant is active when something of it waits, is in flight, or was delivered within the window.
//   - Its share is its part of all deliveries within the window, and its fair share its part of the weights of all active
//     tenants: what it would get if all of them had work of one level all the time. A tenant that has less to do gets less than its
//     fair share, without having to wait; what it leaves goes to the others.
//   - A tenant is noisy while it has more waiting than the mean of all tenants that have messages, or than twice the
//     median of all that are active, and at least [NoisyFrom] messages; and for a window more, in which what it gets has waited for its
//     own backlog. All others are quiet. The mean alone would call a tenant quiet as soon as another one is far noisier. [Noise] is this
//     rule, by which the metrics go, too.
//
// # Guarantees
//
//   - The shares of a view's tenants and of the rest add up to 1, if anything was delivered.
//   - No tenant is lost by the bound on rows: those that have none are counted in the rest.
//   - The order of the rows is total: equal tenants are ordered by key.
//
// # Non-guarantees
//
//   - Deliveries are those that the samples tell of. Other agents' are not in them.
//   - A tenant's fair share is right within a level only. Levels are strict: who has work at a higher one comes first, whatever
//     its weight is.
package trend
