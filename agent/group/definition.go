package group

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/config"
)

// definition is the record of a queue's definition in force.
type definition struct {
	Revision   int64           `json:"revision"`
	Hash       string          `json:"hash"`
	Definition json.RawMessage `json:"definition"`
	SetBy      string          `json:"set_by"`
}

// force is the definition in force as this version of Fairlead understands it.
type force struct {
	record uint64 // the record's revision, for compare-and-set
	stamp  stamp  // as its author wrote it
	setBy  string
	queue  config.Queue // usable only without a problem
	// here is the hash of queue by this version. It differs from the author's when the author's version knows other
	// settings; two files that say the same must not look different for that.
	here    string
	problem string // why this version cannot use it, or ""
}

func writeDefinition(q config.Queue, agent string) ([]byte, error) {
	d, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(definition{Revision: q.Revision, Hash: q.Hash(), Definition: d, SetBy: agent})
}

// readDefinition never fails: a record that says nothing is a definition with a problem, which no live agent carries.
func readDefinition(queue string, value []byte, revision uint64) *force {
	f := &force{record: revision}
	var d definition
	if err := json.Unmarshal(value, &d); err != nil {
		f.problem = "its record is not readable"
		return f
	}
	f.stamp, f.setBy = stamp{d.Revision, d.Hash}, d.SetBy
	if len(d.Definition) == 0 {
		f.problem = "its record has no definition"
		return f
	}
	if err := json.Unmarshal(d.Definition, &f.queue); err != nil {
		f.problem = err.Error()
		return f
	}
	if unknown := unknownSettings(d.Definition, f.queue); len(unknown) > 0 {
		f.problem = "unknown settings: " + list(unknown)
		return f
	}
	switch {
	case f.queue.Name != queue:
		f.problem = fmt.Sprintf("it is for a queue named %q", f.queue.Name)
	case f.queue.Revision != d.Revision:
		f.problem = "its record contradicts itself about the revision"
	default:
		f.here = f.queue.Hash()
	}
	return f
}

// same tells whether a file's definition is this one.
func (f *force) same(own stamp) bool {
	return f.problem == "" && (f.here == own.Hash || f.stamp.Hash == own.Hash)
}

// carriedBy tells whether a heartbeat says that its agent's file has this definition.
func (f *force) carriedBy(s stamp) bool {
	return s.Hash != "" && (s.Hash == f.stamp.Hash || s.Hash == f.here)
}

// unknownSettings lists what a stored definition says and this version's form of it does not.
func unknownSettings(stored json.RawMessage, q config.Queue) []string {
	all := settings(stored)
	known := map[string]bool{}
	for _, s := range settingsOf(q) {
		known[s.path] = true
	}
	var unknown []string
	for _, s := range all {
		switch s.value { // what says nothing is not worth refusing
		case "null", "[]", "{}":
			continue
		}
		if !known[s.path] {
			unknown = append(unknown, s.path)
		}
	}
	return unknown
}

// differences lists the settings in which two definitions differ, by their paths in the file. The revision counts only
// when nothing else differs.
func differences(a, b config.Queue) []string {
	left, right := map[string]string{}, map[string]string{}
	var paths []string
	for _, s := range settingsOf(a) {
		left[s.path] = s.value
		paths = append(paths, s.path)
	}
	for _, s := range settingsOf(b) {
		right[s.path] = s.value
		if _, ok := left[s.path]; !ok {
			paths = append(paths, s.path)
		}
	}
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		if p != "revision" && left[p] != right[p] {
			out = append(out, p)
		}
	}
	if len(out) == 0 && a.Revision != b.Revision {
		out = append(out, "revision")
	}
	return out
}

// setting is one value of a definition.
type setting struct{ path, value string }

func settingsOf(q config.Queue) []setting {
	b, err := json.Marshal(q)
	if err != nil {
		return nil // a Queue always has a JSON form
	}
	return settings(b)
}

// settings flattens a JSON object: objects are followed, everything else is a value. The order is that of the paths.
func settings(object json.RawMessage) []setting {
	var out []setting
	flatten("", object, &out)
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.path, b.path) })
	return out
}

func flatten(path string, raw json.RawMessage, out *[]setting) {
	var fields map[string]json.RawMessage
	if len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &fields) == nil && (path == "" || len(fields) > 0) {
		for name, value := range fields { // sorted by the caller
			p := name
			if path != "" {
				p = path + "." + name
			}
			flatten(p, bytes.TrimSpace(value), out)
		}
		return
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return
	}
	*out = append(*out, setting{path, compact.String()})
}

// list names a few things and counts the rest.
func list(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
