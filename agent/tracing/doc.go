// Package tracing tells OpenTelemetry of the life of messages: as spans of publishes, waits, deliveries and settlements,
// which belong to the trace that a message carries in its own traceparent header.
//
//	app's span ─> publish ─┬─> wait     from when JetStream stored it to its first delivery
//	                       ├─> deliver  from the hand-over to its end ─> settle  until JetStream has confirmed it
//	                       └─> the handler's span, in whichever process works on the message
//
// A publish with a traceparent makes a child of it, and one without begins a trace. The message is stored with the context
// of its publish span instead of what its publisher sent; so whoever continues the message's trace hangs under the publish.
// A message that was published without an agent keeps what it has; without a context, its delivery begins a trace.
//
// It is off unless the standard OTEL_ variables of the environment ask for it, see [FromEnvironment].
//
// # Guarantees
//
//   - A nil [Tracer] is off: nothing is called, and headers pass byte for byte.
//   - No publish and no delivery waits for a collector. Spans wait in a queue of bounded size (OTEL_BSP_MAX_QUEUE_SIZE, 2048);
//     what does not fit is dropped.
//   - What somebody set and cannot be used is an error, all mistakes at once, and never repeats a value that can be secret.
//   - Attributes hold no payload, no header, no id and no tenant key.
//   - Stop sends what is left, and gives up when its context ends.
//
// # Non-guarantees
//
//   - Spans of deliveries and waits are made when these are over: those of a process that is killed are lost.
//   - The time of a wait is told by two clocks, the server's and this host's.
package tracing
