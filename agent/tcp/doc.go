// Package tcp opens the addresses that the agent answers on over TCP, and keeps the number of their connections in bounds.
//
// # Guarantees
//
//   - Errors of [Listen] name the setting that the address comes from, and say what else to write there.
//   - A connection beyond the bound is closed at once; the others do not notice.
package tcp
