package config

import (
	"encoding/json"
	"maps"
)

// variableRef is what may stand, before it is expanded, where a value is
// wanted that is not plain text.
const variableRef = "#/$defs/variable"

// orVariable lets a variable stand where a schema wants something else.
func orVariable(o object) object {
	return object{"anyOf": []object{o, {"$ref": variableRef}}}
}

// Schema returns the JSON Schema (draft 2020-12) of the YAML file, for editors
// and checks before a deploy. It is made of the same tables as the parser and
// knows their types, words, bounds, defaults and descriptions. It does not
// know what spans several settings, so Parse refuses more.
func Schema() ([]byte, error) {
	o := rootTable.schema()
	o["type"] = "object" // an empty file is refused, unlike an empty section
	o["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	o["title"] = "Fairlead configuration"
	o["$defs"] = object{"variable": object{
		"type":        "string",
		"pattern":     `\$\{[A-Za-z_][A-Za-z0-9_]*(:[-?][^}]*)?\}`,
		"description": "A value from the environment: ${VAR}, ${VAR:-default} or ${VAR:?message}.",
	}}
	return json.MarshalIndent(o, "", "  ")
}

func (r *record[T]) schema() object {
	properties := make(object, len(r.fields))
	for _, f := range r.fields {
		p := f.schema()
		p["description"] = f.doc
		properties[f.name] = p
	}
	o := object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	maps.Copy(o, r.more)
	return o
}
