// Package config reads the agent's YAML file: it fills in defaults, checks
// everything, and says all that is wrong at once, each problem with its place.
//
// # From text to settings
//
// A file becomes a tree of YAML nodes. The tables (table_*.go) say which keys
// there are, of which shape each value is, what its default and its bounds are,
// and what it means. One decoder walks the tree along the tables; the JSON
// Schema, the reference in the documentation and the stored form of a queue
// are made of the same tables, so they cannot disagree.
//
//	file --> nodes --> decoder + tables --> Config, warnings
//	                             |      \-> Invalid: all problems, in file order
//	                             |--> Schema
//	                             |--> Reference, the page of all settings
//	                             \--> Queue.MarshalJSON, Queue.Hash
//
// To add a setting, add a field to its struct and a line to its table, say in
// live.go whether a running agent takes over a change, and run go generate.
//
// # Problems and warnings
//
// A [Problem] names the file, line, column and the setting's path, and says what
// is wrong and what would be right. Any problem makes the whole file unusable
// ([Invalid]). Warnings are problems that do not: a queue that no capsule reads.
//
// # Variables
//
// ${VAR}, ${VAR:-default} and ${VAR:?message} are expanded in values, after the
// file was parsed: whatever a variable holds, it cannot add keys or change the
// structure. An unquoted value takes its type after the expansion, so that
// concurrency: ${N} is a number. $$ is a plain dollar sign. Inside {…} and […]
// YAML itself wants quotes around ${VAR}.
//
// # What is not YAML's
//
// Plain values follow the core schema of YAML 1.2: yes, on, 0x10 and 1_000 are
// texts. Keys cannot repeat. Tags are refused. Anchors, aliases and merges (<<)
// work, up to a bound on what they unfold to. An empty value of a mapping or a
// list (limits: with nothing behind it) is an absent one; elsewhere it is a
// problem.
//
// # Guarantees
//
//   - No file makes it panic or hang, or use memory out of proportion: files are
//     bounded to 1 MiB, aliases to 10,000 values, and only what a table knows is
//     visited. Every problem of a readable file has a line and a column.
//   - All problems are reported together (up to 1000). A mistake is told once:
//     checks that compare settings hold their peace about one that is wrong in
//     itself.
//   - No setting is ignored in silence. One that this version does not implement
//     is refused.
//   - Queue's JSON form is lossless, and equal definitions have equal bytes,
//     [Queue.Hash] and [Queue.Layout] on every machine.
//
// # Non-guarantees
//
//   - Files that a setting names (credentials, certificates, folders) are not
//     looked at, and no address is resolved: a file can be checked elsewhere
//     than where it will be used.
//   - A YAML syntax error ends the reading: what comes after it is not checked,
//     and its column is that of the line's first character.
//   - The schema knows single settings; what spans several, only Parse checks.
package config
