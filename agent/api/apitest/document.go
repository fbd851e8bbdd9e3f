package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v3"
)

type object = map[string]any

// where the file's schemas are found by the compiler
const place = "openapi.json"

// A Document is the file. It is safe for several goroutines.
type Document struct {
	root       object
	operations []Operation
	answers    map[string]*jsonschema.Schema // by pointer
}

// An Operation is one call.
type Operation struct {
	ID      string
	Method  string // in upper case
	Path    string // with {names}
	Sockets []string
	Query   []string // names of parameters, in the order of the file
	Headers []string
	Answers map[string]Answer // by status, or "default"
}

// An Answer is what a call can be answered with one status.
type Answer struct {
	Types map[string]string // pointer to the schema by content type; none: no body
	Codes []string          // of an error
}

// Open reads the file.
func Open(file string) (*Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &Document{answers: map[string]*jsonschema.Schema{}}
	if err := yaml.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("apitest: %w", err)
	}
	if err := d.read(); err != nil {
		return nil, fmt.Errorf("apitest: %s: %w", file, err)
	}
	return d, nil
}

// Operations returns all calls, in the order of their paths.
func (d *Document) Operations() []Operation { return d.operations }

// Schemas returns the named schemas of the file.
func (d *Document) Schemas() map[string]any {
	schemas, _, _ := d.at("#/components/schemas")
	all, _ := schemas.(object)
	return all
}

// at follows a pointer, and the reference that it leads to, and returns where it ended.
func (d *Document) at(pointer string) (any, string, error) {
	var node any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		o, ok := node.(object)
		if !ok {
			return nil, pointer, fmt.Errorf("%s leads nowhere", pointer)
		}
		if node, ok = o[part]; !ok {
			return nil, pointer, fmt.Errorf("%s leads nowhere", pointer)
		}
	}
	if o, ok := node.(object); ok && len(o) == 1 {
		if ref, ok := o["$ref"].(string); ok {
			return d.at(ref)
		}
	}
	return node, pointer, nil
}

func escaped(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }

// read fills in the operations and compiles the schemas of their answers.
func (d *Document) read() error {
	if err := d.references(d.root); err != nil {
		return err
	}
	paths, _ := d.root["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[path].(object)
		for _, method := range []string{"get", "put", "post", "delete"} {
			if _, ok := item[method]; !ok {
				continue
			}
			op, err := d.operation(path, method)
			if err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.operations = append(d.operations, op)
		}
	}
	return d.compile()
}

// references follows every reference.
func (d *Document) references(node any) error {
	switch v := node.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			if _, _, err := d.at(ref); err != nil {
				return err
			}
		}
		for _, inner := range v {
			if err := d.references(inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := d.references(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Document) operation(path, method string) (Operation, error) {
	at := "#/paths/" + escaped(path) + "/" + method
	node, _, err := d.at(at)
	if err != nil {
		return Operation{}, err
	}
	o := node.(object)
	op := Operation{Method: strings.ToUpper(method), Path: path, Answers: map[string]Answer{}}
	op.ID, _ = o["operationId"].(string)
	for _, s := range list(o["x-fairlead-sockets"]) {
		op.Sockets = append(op.Sockets, fmt.Sprint(s))
	}
	for i := range list(o["parameters"]) {
		p, err := d.parameter(list(o["parameters"])[i])
		if err != nil {
			return op, err
		}
		switch name := fmt.Sprint(p["name"]); p["in"] {
		case "query":
			op.Query = append(op.Query, name)
		case "header":
			op.Headers = append(op.Headers, name)
		}
	}
	responses, _ := o["responses"].(object)
	for status := range responses {
		if op.Answers[status], err = d.answer(at + "/responses/" + status); err != nil {
			return op, err
		}
	}
	return op, nil
}

func list(node any) []any {
	l, _ := node.([]any)
	return l
}

func (d *Document) parameter(node any) (object, error) {
	o, _ := node.(object)
	if ref, ok := o["$ref"].(string); ok {
		target, _, err := d.at(ref)
		if err != nil {
			return nil, err
		}
		o, _ = target.(object)
	}
	return o, nil
}

func (d *Document) answer(pointer string) (Answer, error) {
	node, at, err := d.at(pointer)
	if err != nil {
		return Answer{}, err
	}
	o, _ := node.(object)
	a := Answer{Types: map[string]string{}}
	content, _ := o["content"].(object)
	for kind, media := range content {
		a.Types[kind] = at + "/content/" + escaped(kind) + "/schema"
		schema, _ := media.(object)["schema"].(object)
		a.Codes = codes(schema)
	}
	return a, nil
}

// codes finds the error codes in the schema of an error's body.
func codes(schema object) (all []string) {
	node := schema
	for _, name := range []string{"error", "code"} {
		properties, _ := node["properties"].(object)
		node, _ = properties[name].(object)
	}
	for _, c := range list(node["enum"]) {
		all = append(all, fmt.Sprint(c))
	}
	return all
}

// compile makes validators of all named schemas and of all answers.
func (d *Document) compile() error {
	text, err := json.Marshal(strict(d.root))
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(place, doc); err != nil {
		return err
	}
	pointers := map[string]bool{}
	for name := range d.Schemas() {
		pointers["#/components/schemas/"+name] = true
	}
	for _, op := range d.operations {
		for _, a := range op.Answers {
			for _, pointer := range a.Types {
				pointers[pointer] = true
			}
		}
	}
	for pointer := range pointers {
		if d.answers[pointer], err = c.Compile(place + strings.ReplaceAll(strings.ReplaceAll(pointer, "{", "%7B"), "}", "%7D")); err != nil {
			return err
		}
	}
	return nil
}

// strict copies the file with schemas that refuse members which they do not have, but for those of errors, to which a call
// may add some.
func strict(root object) object {
	var tighten func(node any) any
	tighten = func(node any) any {
		o, ok := node.(object)
		if !ok {
			return node
		}
		o = maps.Clone(o)
		for key, inner := range o {
			if key != "error" {
				o[key] = tighten(inner)
			}
		}
		if _, ok := o["properties"]; ok && o["type"] == "object" {
			if _, said := o["additionalProperties"]; !said {
				o["additionalProperties"] = false
			}
		}
		return o
	}
	root = maps.Clone(root)
	components := maps.Clone(root["components"].(object))
	schemas := maps.Clone(components["schemas"].(object))
	for name, s := range schemas {
		if name != "ErrorBody" {
			schemas[name] = tighten(s)
		}
	}
	components["schemas"], root["components"] = schemas, components
	return root
}
