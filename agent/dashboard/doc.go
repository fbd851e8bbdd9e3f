// Package dashboard shows an agent in a browser: one page, live, without anything from elsewhere.
//
//	/                 the page, with /app.js, /app.css and /icon.svg
//	/events           what it shows, as server-sent events: one overview each
//
// The files are embedded as they were written; there is no build step. The address is reached without any sign-in, so
// everything is read-only and bounded, and the name that a browser asked for is looked at: a page from elsewhere whose name was made to
// lead here (DNS rebinding) is refused.
//
// # Guarantees
//
//   - Nothing that is asked here changes anything: GET and HEAD are all there is.
//   - The page loads nothing from elsewhere and runs no code but its own: its Content-Security-Policy says so to the browser.
//   - Keys, reasons and whatever else comes from messages and files reaches the page as text, never as HTML.
//   - All who look are shown the same overviews, each of which is taken and encoded once. While nobody looks, none is taken.
//   - Who reads slowly misses overviews, and keeps nobody waiting. A client beyond [MaxConnections] is hung up on, a viewer beyond
//     [MaxViewers] told to come back.
//   - After Stop no goroutine of the server is left.
//
// # Non-guarantees
//
//   - There is no TLS and no sign-in: whoever reaches the address sees tenants' keys, what apps said of failed messages, and
//     how much work there is; payloads never. It is loopback unless the file says otherwise.
package dashboard
