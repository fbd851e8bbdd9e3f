// Package probes answers on a TCP address what orchestrators and monitoring ask: is the process alive, may it be used, and
// what are its numbers.
//
//	/livez    200 as long as the process answers at all
//	/readyz   200 when the agent may be used, else 503 and the reason in a line
//	/metrics  the agent's numbers, in the text format of Prometheus
//
// The address is reached without any sign-in, so everything is read-only and bounded: GET and HEAD, small headers, no
// bodies, short times, and so many connections.
//
// # Guarantees
//
//   - Nothing that is asked here changes anything.
//   - /livez depends on nothing: not on NATS, not on the agent's locks, and not on how slow /metrics is.
//   - What one client does, such as sending its headers slowly, ends within seconds. A client beyond [MaxConnections] is
//     hung up on at once; the others do not notice.
//   - After Stop no goroutine of the server is left.
//
// # Non-guarantees
//
//   - There is no TLS and no sign-in: whoever reaches the address sees the numbers. It is loopback unless the file says
//     otherwise.
package probes
