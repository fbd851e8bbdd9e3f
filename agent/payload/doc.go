// Package payload compresses what messages carry, and expands it again within bounds.
//
// [Compress] is for what a publisher sent: it says when that is not worth it. [Expand] is for what a stream held, which
// anybody may have written: it never makes more of it than it was allowed to.
//
// # Guarantees
//
//   - Expand gives back, byte for byte, what Compress was given.
//   - Expand never holds more than about twice its limit in memory, whatever it is given, and looks at no more of it than
//     it takes to see that the limit is passed.
//   - What Expand returns without an error was whole: length and checksum at its end are compared.
//   - Both are safe for several goroutines.
//
// # Non-guarantees
//
//   - The compressed bytes of one payload can differ between versions.
//   - A payload may expand to a thousand times its size within the limit. That is what the limit is for.
package payload
