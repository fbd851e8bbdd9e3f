package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

//go:generate sh -c "go run ../cmd/agent schema -o markdown >../docs/configuration-reference.md"

// A Setting is one key of the file, as the reference lists it.
type Setting struct {
	Path    string // with [] for each item of a list: queues[].limits.max_bytes
	Type    string
	Default string // as one would write it, or in words; "": absent
	Range   string // in words; "": whatever the type allows
	Live    bool   // a running agent takes over a change
	Meaning string

	Required bool
	Section  bool // it holds other settings, and nothing else
}

// Reference lists every setting, in the order of the tables.
func Reference() []Setting { return rootTable.settings("") }

// settingsOf lists the settings inside a shape.
func settingsOf(s any, path string) []Setting {
	if k, ok := s.(interface{ settings(string) []Setting }); ok {
		return k.settings(path)
	}
	return nil
}

func (r *record[T]) settings(path string) []Setting {
	var all []Setting
	for _, f := range r.fields {
		all = append(all, f.setting(join(path, f.name)))
		all = append(all, f.inner(join(path, f.name))...)
	}
	return all
}

func (*record[T]) words() (kind, bounds string) { return "mapping", "" }

// setting describes the field itself. Where its default is not a fixed value, its description tells it.
func (f field[T]) setting(path string) Setting {
	s := Setting{Path: path, Meaning: f.doc, Required: f.required != "", Live: changesLive(path)}
	s.Type, s.Range = f.words()
	s.Section = s.Type == "mapping"
	if def, ok := f.schema()["default"]; ok {
		s.Default = written(def)
		if n, err := strconv.ParseInt(s.Default, 10, 64); err == nil && s.Type == "size" {
			s.Default = formatSize(n)
		}
	}
	for _, lead := range []string{" Default: ", " Absent: "} {
		if meaning, def, ok := strings.Cut(f.doc, lead); ok {
			s.Meaning, s.Default = meaning, strings.TrimSuffix(def, ".")
		}
	}
	return s
}

// written is a default as the file would have it: texts without quotes, where they are not needed.
func written(def any) string {
	text, err := json.Marshal(def)
	if err != nil {
		panic("config: a default did not marshal: " + err.Error()) // those of the tables do
	}
	var list []string
	var one string
	switch {
	case json.Unmarshal(text, &list) == nil:
		return "[" + strings.Join(list, ", ") + "]"
	case json.Unmarshal(text, &one) == nil && one != "" && !digitsForm.MatchString(one):
		return one
	}
	return string(text)
}

// ReferencePage is the reference as a Markdown page.
func ReferencePage() []byte {
	b := []byte(`# Configuration reference

Every key of the file. This page is generated from the tables that the parser, its defaults and the JSON Schema are made of
(` + "`make docs`" + `, or ` + "`fairlead schema -o markdown`" + `); [configuration](configuration.md) explains them in context.

- *Range* is checked when the file is read; what spans several keys is checked too, and said then.
- *Live*: a running agent takes over a change on SIGHUP. Everything else wants a restart; a file that changes it is refused whole.
- ` + "`[]`" + ` stands for each item of a list.
`)
	section := ""
	for _, s := range Reference() {
		if top, _, _ := strings.Cut(s.Path, "."); strings.TrimSuffix(top, "[]") != section {
			section = strings.TrimSuffix(top, "[]")
			b = fmt.Appendf(b, "\n## `%s`\n\n%s", section, s.Meaning)
			if s.Required {
				b = append(b, " Required."...)
			}
			if s.Range != "" {
				b = fmt.Appendf(b, " A %s: %s.", s.Type, s.Range)
			}
			b = append(b, "\n\n| key | type | default | range | live | meaning |\n| --- | --- | --- | --- | --- | --- |\n"...)
			continue
		}
		b = append(b, s.row()...)
	}
	return b
}

// row is the setting's line in the table.
func (s Setting) row() string {
	def, live := cell(s.Default), ""
	switch {
	case s.Required:
		def = "required"
	case def != "" && !strings.ContainsAny(def, " ;") || strings.HasPrefix(def, "["):
		def = "`" + def + "`"
	}
	if s.Live {
		live = "live"
	}
	if s.Section {
		return fmt.Sprintf("| **`%s`** | %s | %s | | | %s |\n", s.Path, s.Type, def, cell(s.Meaning))
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", s.Path, s.Type, def, cell(s.Range), live, cell(s.Meaning))
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
