// Package top shows an agent on a terminal, live.
//
// A [Model] is what is on the screen: it takes overviews, keys and sizes, and returns text. It is a value, without a clock, a terminal
// or an agent, so that tests can hold any screen against what it should be. [Run] puts one onto a real terminal, with
// bubbletea; [Print] writes the same tables once, for pipes and files.
//
// # Guarantees
//
//   - No line of a screen is wider, and no screen higher, than the terminal.
//   - Keys, reasons and errors cannot carry escape sequences onto the terminal.
//   - An agent that goes away ends nothing: the last state stays, marked as old, until the agent is back.
//
// # Non-guarantees
//
//   - Of a queue with thousands of tenants only those are shown that the overview lists.
package top
