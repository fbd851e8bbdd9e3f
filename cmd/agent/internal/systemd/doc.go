// Package systemd tells the service manager how a service is: ready, reloading, stopping, alive. It speaks the protocol of
// sd_notify(3): datagrams of lines to the socket that NOTIFY_SOCKET names.
//
// # Guarantees
//
//   - Without NOTIFY_SOCKET nothing is done, and nothing fails.
//   - Telling never blocks for longer than a moment, and never fails a caller: a manager that does not listen is no reason not
//     to work.
//
// # Non-guarantees
//
//   - File descriptors are not passed, and no answer is waited for.
package systemd
