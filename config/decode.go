package config

import (
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

const (
	// maxAliased bounds how many values a file may reach through aliases, so
	// that a small file cannot unfold into a big one.
	maxAliased = 10_000
	// maxProblems bounds what a hostile file can make us say.
	maxProblems = 1000
	// maxMergeDepth bounds merges inside merges; a cycle of them ends here.
	maxMergeDepth = 8
)

// mark is a position in the file, both counted from 1. The zero mark is no
// position: the value did not come from a file.
type mark struct{ line, column int }

// value is one node as a shape sees it: aliases followed, variables expanded.
type value struct {
	kind     yaml.Kind // ScalarNode, SequenceNode or MappingNode
	text     string    // of a scalar
	quoted   bool      // the scalar is text, whatever it looks like
	expanded bool      // the text came from a variable
	nodes    []*yaml.Node
	mark     mark
}

// pair is one key of a mapping with its value, still unopened.
type pair struct {
	key  string
	mark mark // of the key
	node *yaml.Node
}

// decoder walks a tree of nodes along the shapes and collects every problem.
// What no shape asks for is never visited, so the depth of the walk is the
// depth of the tables, whatever the file does.
type decoder struct {
	file   string
	lookup func(string) (string, bool)
	// stored says that the nodes are a stored definition and not a file: no
	// variables, and keys of newer versions are passed over.
	stored bool

	problems []Problem
	warnings []Problem
	marks    map[string]mark   // where each value that was set stands, by path
	bad      map[string]bool   // paths that have a problem already
	levels   map[string]string // levels given by name, by path, until the names are known

	aliasDepth int
	aliased    int
	stopped    bool
}

func newDecoder(file string, lookup func(string) (string, bool)) *decoder {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	return &decoder{
		file:   file,
		lookup: lookup,
		marks:  make(map[string]mark),
		bad:    make(map[string]bool),
		levels: make(map[string]string),
	}
}

// readValue opens a node and lets the shape read it. Every value of a file
// passes here, so this is where aliases, tags, variables and empty values are
// dealt with, once for all shapes.
func readValue[V any](d *decoder, s shape[V], n *yaml.Node, at string, into *V) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		d.aliasDepth++
		defer func() { d.aliasDepth-- }()
	}
	if d.stopped || !d.countAliased(n, at) {
		return
	}
	v := value{
		kind:   n.Kind,
		text:   n.Value,
		quoted: n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0,
		nodes:  n.Content,
		mark:   mark{n.Line, n.Column},
	}
	d.marks[at] = v.mark
	if n.Style&yaml.TaggedStyle != 0 {
		d.report(at, "the tag %s has no meaning here: remove it", n.Tag)
		return
	}
	if v.kind == yaml.ScalarNode && !d.stored && strings.Contains(v.text, "$") {
		text, err := expand(v.text, d.lookup)
		if err != nil {
			d.report(at, "%v", err)
			return
		}
		v.expanded = text != v.text
		v.text = text
	}
	if v.class() == classNull && !(v.expanded && v.text != "") {
		delete(d.marks, at) // as if the key were not there
		if _, container := any(s).(interface{ container() }); container {
			return
		}
		if v.expanded {
			d.reportAt(v.mark, at, "expands to nothing: write ${VAR:-default}, or quotes around it for an empty text")
			return
		}
		d.reportAt(v.mark, at, "has no value: write one, or remove the line")
		return
	}
	s.read(d, v, at, into)
}

// countAliased charges a value that was reached through an alias.
func (d *decoder) countAliased(n *yaml.Node, at string) bool {
	if d.aliasDepth == 0 {
		return true
	}
	d.aliased++
	if d.aliased <= maxAliased {
		return true
	}
	d.reportAt(mark{n.Line, n.Column}, at, "aliases unfold into more than %d values: write less with aliases", maxAliased)
	d.stopped = true
	return false
}

// pairs returns the keys of a mapping in file order, merged ones last. A key
// that stands twice is a problem and counts once.
func (d *decoder) pairs(v value, at string) []pair {
	seen := make(map[string]mark, len(v.nodes)/2)
	return d.appendPairs(nil, v.nodes, at, seen, 0)
}

func (d *decoder) appendPairs(to []pair, nodes []*yaml.Node, at string, seen map[string]mark, depth int) []pair {
	var merges []*yaml.Node
	for i := 0; i+1 < len(nodes); i += 2 {
		k := nodes[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		where := mark{nodes[i].Line, nodes[i].Column}
		switch {
		case k.Kind != yaml.ScalarNode:
			d.reportAt(where, at, "a key must be plain text, not a list or a mapping")
		case k.Tag == "!!merge" && !d.stored:
			merges = append(merges, nodes[i+1])
		default:
			if first, twice := seen[k.Value]; !twice {
				seen[k.Value] = where
				to = append(to, pair{k.Value, where, nodes[i+1]})
			} else if depth == 0 {
				d.reportAt(where, join(at, k.Value), "is there twice, first on line %d: keep one", first.line)
			}
		}
	}
	for _, m := range merges {
		to = d.merge(to, m, at, seen, depth+1)
	}
	return to
}

// merge adds the keys of a merged mapping (<<: *base) that are not there yet.
func (d *decoder) merge(to []pair, n *yaml.Node, at string, seen map[string]mark, depth int) []pair {
	where := mark{n.Line, n.Column}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.aliasDepth++
	defer func() { d.aliasDepth-- }()
	if d.stopped || !d.countAliased(n, at) {
		return to
	}
	switch {
	case depth > maxMergeDepth:
		d.reportAt(where, at, "merges (<<) are nested too deep")
		d.stopped = true
	case n.Kind == yaml.MappingNode:
		return d.appendPairs(to, n.Content, at, seen, depth)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			to = d.merge(to, item, at, seen, depth+1)
		}
	default:
		d.reportAt(where, at, "a merge (<<) wants a mapping")
	}
	return to
}

// report records a problem with the value at a path, at the position where it
// or the nearest thing around it stands.
func (d *decoder) report(at, format string, args ...any) {
	d.reportAt(d.position(at), at, format, args...)
}

func (d *decoder) reportAt(where mark, at, format string, args ...any) {
	d.bad[at] = true
	if d.stopped {
		return
	}
	if len(d.problems) == maxProblems {
		d.stopped = true
		format, args = "and more problems than can be listed", nil
	}
	d.problems = append(d.problems, d.problem(where, at, format, args...))
}

// warn records something that is probably not meant.
func (d *decoder) warn(at, format string, args ...any) {
	if len(d.warnings) < maxProblems {
		d.warnings = append(d.warnings, d.problem(d.position(at), at, format, args...))
	}
}

func (d *decoder) problem(where mark, at, format string, args ...any) Problem {
	return Problem{File: d.file, Line: where.line, Column: where.column, Path: at, Message: fmt.Sprintf(format, args...)}
}

// position finds where a path stands in the file: itself, else the nearest
// enclosing value that is there, else the beginning.
func (d *decoder) position(at string) mark {
	for at != "" {
		if m, ok := d.marks[at]; ok {
			return m
		}
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
	if m, ok := d.marks[""]; ok {
		return m
	}
	return mark{1, 1}
}

// isSet reports whether the file itself gives a value at this path.
func (d *decoder) isSet(at string) bool {
	_, ok := d.marks[at]
	return ok
}

// sound reports whether none of the paths has a problem. Checks that look at
// several values ask first, so that one mistake is told once.
func (d *decoder) sound(paths ...string) bool {
	for _, p := range paths {
		if d.bad[p] {
			return false
		}
	}
	return true
}
