package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong in a file, or, among the warnings, one
// that is probably not meant.
type Problem struct {
	File string // as the caller named it
	Line int    // counted from 1
	// Column counts characters from 1. A byte order mark is not counted.
	Column int
	// Path names the setting, such as queues[0].limits.max_bytes. It is empty
	// when the problem is with the file as a whole.
	Path    string
	Message string // what is wrong and what would be right
}

// String gives "file:line:column: path: message", the form that editors and
// terminals turn into links.
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Path, p.Message)
}

// Invalid says that a file cannot be used, with everything that is wrong in
// it, in the order of the file. No part of such a file takes effect.
type Invalid struct {
	Problems []Problem // at least one

	cause error // why the file could not be read, if that is the problem
}

// Error lists all problems, a line each.
func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return "config: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "config: %d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n")
		b.WriteString(p.String())
	}
	return b.String()
}

// Unwrap returns the error of the file system when the file could not be
// read, so that errors.Is(err, fs.ErrNotExist) works; otherwise nil.
func (e *Invalid) Unwrap() error { return e.cause }

// sortProblems brings problems into the order of the file. Problems at one
// place stay in the order in which they were found.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}
