// Package tcp opens the addresses that the agent answers on over TCP, and serves HTTP on them within bounds.
//
// # Guarantees
//
//   - Errors of [Listen] name the setting that the address comes from, and say what else to write there.
//   - A connection beyond the bound is closed at once; the others do not notice.
//   - After [Server.Stop] the address is free, and no request is in work.
//
// # Non-guarantees
//
//   - Who may ask what, and what a request may cost beyond time, size and connections, is the handlers' business.
package tcp
