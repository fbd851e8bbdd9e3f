// Command fairlead is the agent and the tools of its operators and shell scripts.
//
// The agent itself is "fairlead run". Every other command either is a client of a running agent's sockets (publish, pull,
// work, status, …), or reads a configuration file (validate, setup, schema), or starts an agent of its own for a moment
// (demo, bench).
//
// # Guarantees
//
//   - Exit codes: 0 done or drained, 1 failure, 2 usage, 69 no agent or no broker, 78 bad configuration.
//   - stdout carries data only. Errors go to stderr and begin with "fairlead: ". Tables have a JSON form, -o json.
//   - No escape sequence is written to what is not a terminal, none with NO_COLOR set, and none that came in a message:
//     control characters of keys and payloads are shown escaped.
//
// # Non-guarantees
//
//   - The layout of tables may change between versions. Scripts should read -o json.
package main
