package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yaml "go.yaml.in/yaml/v3"
)

// MarshalJSON writes the definition with the keys of the YAML file: every
// value, times as text with units, sizes in bytes. Equal definitions give
// equal bytes.
func (q Queue) MarshalJSON() ([]byte, error) {
	return queueTable.appendJSON(nil, q), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, under the same rules as the YAML
// file: absent keys get their defaults, and an unusable definition is an error
// that wraps ErrDefinition and leaves q as it was. Two rules differ: nothing is
// expanded, and unknown keys are passed over, because they come from an agent
// of a newer version.
func (q *Queue) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := jsonNode(dec, 0)
	if err == nil && n.Kind != yaml.MappingNode {
		err = errors.New("it is not an object")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more after its end", ErrDefinition)
	}
	d := newDecoder("", nil)
	d.stored = true
	var fresh Queue
	queueTable.start(&fresh)
	readValue[Queue](d, queueTable, n, "", &fresh)
	if len(d.problems) > 0 {
		p := d.problems[0]
		return fmt.Errorf("%w: %s: %s", ErrDefinition, p.Path, p.Message)
	}
	*q = fresh
	return nil
}

// maxJSONDepth is far above what a definition needs.
const maxJSONDepth = 32

// jsonNode reads the next JSON value as a node, so that one set of tables
// reads both forms.
func jsonNode(dec *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxJSONDepth {
		return nil, errors.New("it is nested too deep")
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for dec.More() { // keys and values alternate, as in a mapping node
			child, err := jsonNode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := dec.Token() // the closing bracket
		return n, err
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: t}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	default: // bool or json.Number
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(t)}, nil
	}
}
