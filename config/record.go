package config

import (
	"encoding/json"
	"slices"

	yaml "go.yaml.in/yaml/v3"
)

// record is a mapping with known keys, each a field of a struct. The tables of
// this package are records.
type record[T any] struct {
	fields []field[T]
	// finish fills what depends on other fields and checks what spans several.
	finish func(d *decoder, at string, v *T)
	// more is merged into the schema, for what the fields alone do not say.
	more object
}

// field is one key of a record.
type field[T any] struct {
	name     string
	doc      string
	required string // what to write when it is missing; "": it may be
	start    func(into *T)
	read     func(d *decoder, n *yaml.Node, at string, into *T)
	// appendJSON writes the value, or nothing when it is absent.
	appendJSON func(b []byte, v *T) []byte
	schema     func() object
	keys       func() []string // of a record inside
	words      func() (kind, bounds string)
	inner      func(path string) []Setting // of records inside
}

// prop is a field that is absent by default: its zero value, or for a record
// inside, that record's own defaults.
func prop[T, V any, S shape[V]](name string, of func(*T) *V, concrete S, doc string) field[T] {
	var s shape[V] = concrete
	blank := func(V) bool { return false }
	if b, ok := any(s).(interface{ blank(V) bool }); ok {
		blank = b.blank
	}
	return field[T]{
		name:  name,
		doc:   doc,
		start: func(into *T) { start(s, of(into)) },
		read: func(d *decoder, n *yaml.Node, at string, into *T) {
			readValue(d, s, n, at, of(into))
		},
		appendJSON: func(b []byte, v *T) []byte {
			if blank(*of(v)) {
				return b
			}
			return s.appendJSON(b, *of(v))
		},
		schema: s.schema,
		keys:   func() []string { return keysOf(s) },
		words:  s.words,
		inner:  func(path string) []Setting { return settingsOf(s, path) },
	}
}

// propOr is a field with a default.
func propOr[T, V any, S shape[V]](name string, of func(*T) *V, s S, def V, doc string) field[T] {
	f := prop(name, of, s, doc)
	clone := func(v V) V { return v }
	if c, ok := any(s).(interface{ clone(V) V }); ok {
		clone = c.clone
	}
	f.start = func(into *T) { *of(into) = clone(def) }
	f.schema = func() object {
		o := s.schema()
		o["default"] = json.RawMessage(s.appendJSON(nil, def))
		return o
	}
	return f
}

// must makes a field required; example is what to write.
func (f field[T]) must(example string) field[T] {
	f.required = example
	return f
}

// start sets a fresh value to its defaults.
func start[V any](s shape[V], into *V) {
	if r, ok := any(s).(interface{ start(*V) }); ok {
		r.start(into)
	}
}

// keysOf lists the keys inside a shape, for suggestions.
func keysOf(s any) []string {
	if k, ok := s.(interface{ keys() []string }); ok {
		return k.keys()
	}
	return nil
}

func (*record[T]) container() {}

func (r *record[T]) start(into *T) {
	for _, f := range r.fields {
		f.start(into)
	}
}

// read visits the fields in the order of the table, so that a later field can
// rely on an earlier one wherever they stand in the file.
func (r *record[T]) read(d *decoder, v value, at string, into *T) {
	if v.kind != yaml.MappingNode {
		d.mistyped(v, at, "a mapping")
		return
	}
	given := make(map[string]*yaml.Node, len(v.nodes)/2)
	known := r.keys()
	own := known[:len(r.fields)]
	for _, p := range d.pairs(v, at) {
		switch {
		case d.stopped: // a suggestion costs too much to make it for nobody
			return
		case slices.Contains(own, p.key):
			given[p.key] = p.node
		case !d.stored:
			d.reportAt(p.mark, join(at, p.key), "unknown key%s", suggest(p.key, known))
		}
	}
	for _, f := range r.fields {
		path := join(at, f.name)
		if n, ok := given[f.name]; ok {
			f.read(d, n, path, into)
		}
		if f.required != "" && !d.isSet(path) && d.sound(path) {
			d.report(path, "is missing: write %s", f.required)
		}
	}
	if r.finish != nil {
		r.finish(d, at, into)
	}
}

// keys lists the keys of the record, and after them the dotted ones inside.
func (r *record[T]) keys() []string {
	var own, inner []string
	for _, f := range r.fields {
		own = append(own, f.name)
		for _, k := range f.keys() {
			inner = append(inner, f.name+"."+k)
		}
	}
	return append(own, inner...)
}

func (r *record[T]) appendJSON(b []byte, v T) []byte {
	b = append(b, '{')
	first := true
	for _, f := range r.fields {
		val := f.appendJSON(nil, &v)
		if len(val) == 0 {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, f.name), ':')
		b = append(b, val...)
	}
	return append(b, '}')
}
