package config

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v3"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("fairlead.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("fairlead.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// instance reads YAML as an editor does: without Fairlead's own rules.
func instance(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	schema := compileSchema(t)
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		minimal,
		string(full),
		at(t, "capsule", "concurrency: ${N:-5}"),
		at(t, "capsule", "lease: ${LEASE:-5s}"),
		at(t, "queue", "fair_share: true"),
		at(t, "queue", "fair_share: {weights: {a: 0.001, b: 999.999, c: 1.1}}"),
		at(t, "queue", "limits: {max_bytes: 1024}"),
		at(t, "queue", "limits:"),
		at(t, "queue", "sources:"),
		at(t, "queue", "priority_levels: [a, b]"),
		at(t, "queue", "default_priority: ${P:-0}"),
		at(t, "nats", "embedded: {sync_interval: always}"),
		at(t, "nats", "url: [nats://a, nats://b]"),
		at(t, "root", "agent: {drain_timeout: 1m30.5s}"),
	} {
		mustParse(t, text)
		if err := schema.Validate(instance(t, text)); err != nil {
			t.Errorf("the schema refuses\n%s%v", text, err)
		}
	}
}

func TestSchemaRefusesWhatIsWrongInItself(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"null\n",
		"queues: [{name: q}]\n",
		"nats: {url: nats://n}\n",
		at(t, "root", "agnet: {}"),
		at(t, "nats", "prefix: x"),
		at(t, "nats", "{url: nats://n, embedded: {}}"),
		at(t, "queue", "ttl: 15"),
		at(t, "queue", "ttl: 1d"),
		at(t, "queue", "limits: {max_bytes: 1GB}"),
		at(t, "queue", "limits: {overflow: block}"),
		at(t, "queue", "priority_levels: 101"),
		at(t, "queue", "priority_levels: [a, a]"),
		at(t, "queue", "fair_share: {weights: {a: 0}}"),
		at(t, "queue", "fair_share: {weights: {a: 0.0001}}"),
		at(t, "queue", "fair_share: {key_from: {}}"),
		at(t, "queue", "storage: {replicas: 2}"),
		at(t, "queue", "retry: {backoff: []}"),
		at(t, "queue", "sources: [{stream: S}]"),
		at(t, "capsule", "concurrency: many"),
		"nats: {url: nats://n}\nqueues: [{}]\n",
	} {
		if _, _, err := Parse("f.yaml", []byte(text), nil); err == nil {
			t.Errorf("Parse accepts\n%s", text)
		}
		if err := schema.Validate(instance(t, text)); err == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
	}
}

// Each setting is described, and each default in the schema is one that the
// parser would take.
func TestSchemaDescribesEverySetting(t *testing.T) {
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	settings, defaults := 0, 0
	var walk func(at string, node any)
	walk = func(at string, node any) {
		o, ok := node.(map[string]any)
		if !ok {
			return
		}
		properties, _ := o["properties"].(map[string]any)
		for name, p := range properties {
			setting := p.(map[string]any)
			settings++
			if text, _ := setting["description"].(string); !strings.HasSuffix(text, ".") || len(text) < 10 {
				t.Errorf("%s.%s has the description %q", at, name, text)
			}
			if _, ok := setting["default"]; ok {
				defaults++
			}
			walk(at+"."+name, p)
		}
		walk(at, o["items"])
		if any, ok := o["anyOf"].([]any); ok {
			for _, a := range any {
				walk(at, a)
			}
		}
	}
	walk("", root)
	if settings < 70 || defaults < 35 {
		t.Errorf("found %d settings with %d defaults: the walk misses some", settings, defaults)
	}
}

// A file of nothing but the schema's defaults is the same as one without them.
func TestSchemaDefaultsAreTheParsersDefaults(t *testing.T) {
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	file := map[string]any{
		"nats":     map[string]any{"url": "nats://nats:4222"},
		"queues":   []any{withDefaults(root, "queues", map[string]any{"name": "q"})},
		"capsules": []any{withDefaults(root, "capsules", map[string]any{"name": "c", "queues": []any{"q"}})},
	}
	for _, section := range []string{"agent", "listen", "coordination", "log", "metrics", "readiness"} {
		file[section] = defaultsOf(root["properties"].(map[string]any)[section])
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, mustParse(t, string(text)), defaultConfig())
}

func withDefaults(root map[string]any, list string, into map[string]any) map[string]any {
	items := root["properties"].(map[string]any)[list].(map[string]any)["items"]
	for name, v := range defaultsOf(items) {
		into[name] = v
	}
	return into
}

// defaultsOf collects the defaults of a section, and of the sections inside
// that are there by default.
func defaultsOf(section any) map[string]any {
	values := make(map[string]any)
	properties, _ := section.(map[string]any)["properties"].(map[string]any)
	for name, p := range properties {
		setting := p.(map[string]any)
		if def, ok := setting["default"]; ok {
			values[name] = def
		} else if inner := defaultsOf(p); len(inner) > 0 && name != "compress" {
			values[name] = inner
		}
	}
	return values
}
