package config

import (
	"fmt"
	"maps"
	"slices"

	yaml "go.yaml.in/yaml/v3"
)

// list is a sequence. An empty one is read as nil.
type list[V any] struct {
	item   shape[V]
	low    int    // fewest items
	high   int    // most items
	ofWhat string // for messages: "queue names"
}

func (list[V]) container() {}

func (l list[V]) read(d *decoder, v value, at string, into *[]V) {
	if v.kind != yaml.SequenceNode {
		d.mistyped(v, at, "a list of "+l.ofWhat)
		return
	}
	if len(v.nodes) < l.low {
		d.report(at, "has no items: list at least %d of %s", l.low, l.ofWhat)
		return
	}
	if len(v.nodes) > l.high {
		d.report(at, "has %d items, and may have %d", len(v.nodes), l.high)
		return
	}
	var items []V
	for i, n := range v.nodes {
		var item V
		start(l.item, &item)
		readValue(d, l.item, n, index(at, i), &item)
		items = append(items, item)
	}
	*into = items
}

// clone keeps the items of a default from being shared.
func (l list[V]) clone(v []V) []V { return slices.Clone(v) }

func (l list[V]) blank(v []V) bool { return len(v) == 0 }

func (l list[V]) appendJSON(b []byte, v []V) []byte {
	b = append(b, '[')
	for i, item := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.item.appendJSON(b, item)
	}
	return append(b, ']')
}

func (l list[V]) schema() object {
	return object{"type": []string{"array", "null"}, "items": l.item.schema(), "minItems": l.low, "maxItems": l.high}
}

func (l list[V]) words() (string, string) {
	_, bounds := l.item.words()
	count := fmt.Sprintf("%d to %d items", l.low, l.high)
	if l.low == 0 {
		count = fmt.Sprintf("up to %d items", l.high)
	}
	if bounds != "" {
		count += ", each " + bounds
	}
	return "list of " + l.ofWhat, count
}

func (l list[V]) settings(path string) []Setting { return settingsOf(l.item, path+"[]") }

// dictionary is a mapping whose keys are the user's. An empty one is read as nil.
type dictionary[V any] struct {
	item   shape[V]
	high   int
	verify func(key string) (problem string)
}

func (dictionary[V]) container() {}

func (l dictionary[V]) read(d *decoder, v value, at string, into *map[string]V) {
	if v.kind != yaml.MappingNode {
		d.mistyped(v, at, "a mapping")
		return
	}
	pairs := d.pairs(v, at)
	if len(pairs) > l.high {
		d.report(at, "has %d entries, and may have %d", len(pairs), l.high)
		return
	}
	var entries map[string]V
	for _, p := range pairs {
		if problem := l.verify(p.key); problem != "" {
			d.reportAt(p.mark, join(at, p.key), "%s", problem)
			continue
		}
		var item V
		readValue(d, l.item, p.node, join(at, p.key), &item)
		if entries == nil {
			entries = make(map[string]V, len(pairs))
		}
		entries[p.key] = item
	}
	*into = entries
}

func (l dictionary[V]) blank(v map[string]V) bool { return len(v) == 0 }

func (l dictionary[V]) appendJSON(b []byte, v map[string]V) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		b = l.item.appendJSON(b, v[key])
	}
	return append(b, '}')
}

func (l dictionary[V]) schema() object {
	return object{"type": []string{"object", "null"}, "additionalProperties": l.item.schema(), "maxProperties": l.high}
}

func (l dictionary[V]) words() (string, string) {
	kind, bounds := l.item.words()
	return "mapping to " + kind + "s", fmt.Sprintf("up to %d entries, each %s", l.high, bounds)
}

// pointer is a value that can be absent.
type pointer[V any] struct{ inner shape[V] }

func (pointer[V]) container() {}

func (p pointer[V]) read(d *decoder, v value, at string, into **V) {
	fresh := new(V)
	start(p.inner, fresh)
	p.inner.read(d, v, at, fresh)
	*into = fresh
}

func (p pointer[V]) blank(v *V) bool { return v == nil }

func (p pointer[V]) appendJSON(b []byte, v *V) []byte { return p.inner.appendJSON(b, *v) }

func (p pointer[V]) schema() object { return p.inner.schema() }

func (p pointer[V]) keys() []string { return keysOf(p.inner) }

func (p pointer[V]) words() (string, string) { return p.inner.words() }

func (p pointer[V]) settings(path string) []Setting { return settingsOf(p.inner, path) }
