// Package integration tests Fairlead as its users meet it: the built binary as a process of its own, a real nats-server,
// real sockets, files and signals, and nothing of the agent's inside.
//
// # Layers
//
// go test ./integration/ builds the binary and the server once and takes about three minutes on two cores. With
// FAIRLEAD_SLOW=1 in the environment it also runs what takes longer: the whole day of orders, deep backlogs, long
// comparisons of throughput, storms of faults over an ordered queue.
//
// # Harness
//
// An [agent] is a running binary; its methods speak HTTP on its socket without the project's own client, so that a
// mistake which server and client share is still seen. A natsServer is a standalone server that can be killed and
// started again on the same port and store, a cluster is three of them, and a link a network to it that loses what a test wants. A worker is an app that
// survives all that and writes down what happens to it; package history judges the record. Everything a failed test started
// prints its log. Nothing sleeps in order to wait: tests wait for the thing itself, with a deadline that is far beyond the
// promise unless the promise is the time.
//
// # Guarantees
//
// A test here asserts what users are promised: orders, counts, ratios, answers, exit codes. Where a promise is a time,
// that time is asserted and no other: of a few rounds, half have to keep it, because machines that tests run on stand still
// now and then.
//
// # Non-guarantees
//
// Throughput is not asserted, only compared within one run.
package integration
