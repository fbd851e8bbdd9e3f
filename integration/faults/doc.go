// Command faults runs the fault matrix: every fault that Fairlead is to survive, on the real binary and real servers, and
// ends with a table of what was injected and whether each promise was held.
//
//	go run ./integration/faults                       all rows, about 25 minutes on two cores
//	go run ./integration/faults --only cluster        rows whose name contains a word
//	go run ./integration/faults --seed 7              another order of chances
//	go run ./integration/faults --soak 1h             random faults for an hour, and then the checker
//	go run ./integration/faults --soak 1h --only cluster   the same on three servers
//
// # How
//
// A scenario is a test of package integration. The command runs those of the chosen rows with an event log, to which the
// harness writes each fault at the moment at which it injects it, and each scenario its verdicts with figures. The table is
// made from that log alone: a fault counts as injected only when the log has it, as often as it has it.
//
// # Guarantees
//
// The exit code is 0 only if every scenario of every chosen row ran and passed, each verdict is that the promise was held,
// and each row's faults were injected.
//
// # Non-guarantees
//
// Clocks are set for single processes, not for a machine; and clocks that run at different speeds are a simulation, whose
// faults are counted in scenarios.
package main
