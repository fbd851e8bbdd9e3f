package apitest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Find returns the operation of a request.
func (d *Document) Find(method, path string) (Operation, bool) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	var found Operation
	for _, op := range d.operations {
		names, ok := 0, op.Method == method
		pattern := strings.Split(op.Path, "/")
		for i := range pattern {
			ok = ok && len(parts) == len(pattern) && (pattern[i] == parts[i] || strings.HasPrefix(pattern[i], "{"))
			if strings.HasPrefix(pattern[i], "{") {
				names++
			}
		}
		// …/dead/retry is no {seq}: of two that fit, the one with fewer names is meant.
		if ok && (found.Path == "" || names < strings.Count(found.Path, "{")) {
			found = op
		}
	}
	return found, found.Path != ""
}

// Check says what of an answer is not in the file.
func (d *Document) Check(method, path string, status int, contentType string, body []byte) error {
	op, ok := d.Find(method, path)
	if !ok {
		return fmt.Errorf("apitest: there is no %s %s", method, path)
	}
	where := fmt.Sprintf("apitest: %s %s, status %d", method, path, status)
	a, ok := op.Answers[strconv.Itoa(status)]
	if !ok {
		if a, ok = op.Answers["default"]; !ok || status < 400 {
			return fmt.Errorf("%s: not in the file", where)
		}
	}
	if len(a.Types) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s: has a body, and should have none", where)
		}
		return nil
	}
	kind, _, _ := strings.Cut(contentType, ";")
	pointer, ok := a.Types[kind]
	if _, any := a.Types["*/*"]; any {
		return nil
	}
	if !ok {
		return fmt.Errorf("%s: content type %q is not in the file", where, contentType)
	}
	if kind != "application/json" && kind != "application/x-ndjson" {
		return nil
	}
	if err := d.validate(pointer, kind == "application/x-ndjson", body); err != nil {
		return fmt.Errorf("%s: %w\n%s", where, err, body)
	}
	return nil
}

// CheckSchema says what of a JSON value, or of each line of NDJSON, does not follow a named schema.
func (d *Document) CheckSchema(name string, lines bool, body []byte) error {
	return d.validate("#/components/schemas/"+name, lines, body)
}

func (d *Document) validate(pointer string, lines bool, body []byte) error {
	schema, ok := d.answers[pointer]
	if !ok {
		return fmt.Errorf("there is no schema %s", pointer)
	}
	parts := [][]byte{body}
	if lines {
		parts = bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	}
	for _, part := range parts {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(part))
		if err != nil {
			return fmt.Errorf("no JSON: %w", err)
		}
		if err := schema.Validate(v); err != nil {
			return err
		}
	}
	return nil
}
