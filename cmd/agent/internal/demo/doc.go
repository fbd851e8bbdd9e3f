// Package demo shows what Fairlead does: it publishes a backlog through an agent's socket, takes it through the socket, and
// says what came in what order.
//
// [Tour] mixes three tenants over three levels. [Weights] has two tenants with given weights on one level, and checks that
// every window of the order has exactly their proportion.
//
// # Guarantees
//
//   - What is printed was measured: orders are those of the agent's answers, shares are counted from them.
//   - Messages are acknowledged, so a demo leaves its queue as it was.
//
// # Non-guarantees
//
//   - The queue has to be empty, with three levels and fair share, and nobody else may use it meanwhile.
package demo
