// Package socket serves the agent's API: HTTP/1.1 with keep-alive on Unix sockets, for apps and, on a second socket, for
// operators. What the words mean is in package api; this package reads requests, bounds them, and writes answers.
//
// # Concepts
//
// Listen makes the socket file. A Server answers on it with one of two faces: App (publish, pull, settle, sessions, reads)
// or Admin (reads, drain, dead letters, what operators set, purge, delayed messages). A Server decides nothing about messages: it asks a Publisher, the Capsules and a Reader, and
// keeps what apps have in hand in a delivery.Book.
//
//	connection -> conn (peer credentials, cap, write deadlines, its session)
//	           -> exchange (one request: route, bounds, answer)
//	           -> publish | batch | pull | next | settle | session | read | dead | drain | controls
//
// # Guarantees
//
//   - A body is not read, and no memory taken for it, before its size is known to be allowed; a body without a size is
//     counted while it arrives. All bodies together are bounded too.
//   - Nothing that is asked for is ignored in silence: unknown parameters, unknown Fairlead headers and features that this
//     version does not have are refused by name.
//   - What an app gets is what was published, byte for byte, however it is stored. A payload that cannot be expanded within
//     its bounds is rejected in the app's place, and what comes with it is delivered. A pull holds little more of expanded
//     payloads than its largest.
//   - Messages of a pull whose answer could not be written are given back at once and not counted; after the answer was
//     written, losing them counts.
//   - The end of a session's connection ends the session; the end of a connection ends what was pulled with
//     session=connection on it.
//   - A client that sends or reads too slowly loses its connection, and harms no other. Waiting for a message, an open
//     session, and a connection whose messages are being worked on are not slow. A connection that nothing else was asked on for
//     some minutes is closed.
//   - Every answer carries Fairlead-State; every error that a handler answers is {"error":{"code","message"}}.
//   - The socket file has its mode before anybody can connect, is taken over only from a dead owner, and is removed at the
//     end only if it is still ours.
//
// # Non-guarantees
//
//   - What cannot be read as HTTP at all is answered by net/http in its own words.
//   - An answer counts as written when the kernel has taken it. An app that dies before it reads it costs an attempt.
//   - A client that half-closes its connection while a pull waits counts as gone, and is told so. What it asked to be
//     stored or settled before that is done.
//   - With several allowed groups, only a peer's primary group is looked at.
package socket
