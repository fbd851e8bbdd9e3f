package socket

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/api/apitest"
)

// openAPI is the file that describes this API to tools.
func openAPI(t *testing.T) *apitest.Document {
	t.Helper()
	d, err := apitest.Open("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var pathName = regexp.MustCompile(`\{\w+\}`)

// Every registered call is in the file, on its sockets, and the file has no other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	want := map[string]string{}
	for _, r := range table {
		var sockets []string
		for _, f := range r.faces {
			sockets = append(sockets, map[Face]string{App: "app", Admin: "admin"}[f])
		}
		want[r.method+" "+r.path] = strings.Join(sockets, ",")
	}
	got := map[string]string{}
	for _, op := range openAPI(t).Operations() {
		got[op.Method+" "+pathName.ReplaceAllString(op.Path, "{}")] = strings.Join(op.Sockets, ",")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the file has %d calls and the handlers %d:", len(got), len(want))
		for call := range want {
			if got[call] != want[call] {
				t.Errorf("%s: on %q in the file, on %q here", call, got[call], want[call])
			}
		}
		for call := range got {
			if _, ok := want[call]; !ok {
				t.Errorf("%s: only in the file", call)
			}
		}
	}
}

// Every call takes the parameters that the file has, and no other.
func TestOpenAPIHasEveryParameter(t *testing.T) {
	names := regexp.MustCompile(`this call takes (none|[^"]*)`)
	app := newRig(t)
	admin := newRig(t, func(o *Options) { o.Face = Admin })
	for _, op := range openAPI(t).Operations() {
		path := strings.NewReplacer("{queue}", "orders", "{capsule}", "work", "{token}", "t", "{key}", "acme", "{handle}", "h", "{seq}", "1").Replace(op.Path)
		r := app
		if op.Sockets[0] == "admin" {
			r = admin
		}
		a := r.call(op.Method, path+"?no-such-parameter=1", "")
		m := names.FindStringSubmatch(a.body)
		if m == nil {
			t.Errorf("%s: a parameter that it does not have is answered %d %s", op.ID, a.StatusCode, a.body)
			continue
		}
		takes := strings.Split(strings.TrimSuffix(strings.TrimPrefix(m[1], "none; remove it"), "none"), ", ")
		if takes[0] == "" {
			takes = nil
		}
		if !slices.Equal(takes, op.Query) {
			t.Errorf("%s takes %q, and the file says %q", op.ID, takes, op.Query)
		}
	}
}

// Every header that a publish understands is in the file, and those of the file are understood.
func TestOpenAPIHasEveryHeader(t *testing.T) {
	valid := map[string]string{
		api.HeaderPriority: "high", api.HeaderKey: "acme", api.HeaderWeight: "2", api.HeaderID: "1", api.HeaderDelay: "5s", api.HeaderAt: time.Now().Add(time.Hour).Format(time.RFC3339),
		api.HeaderTTL: "1h", api.HeaderCompress: "gzip", "Content-Type": "text/plain", "traceparent": "x", "tracestate": "x",
	}
	r := newRig(t)
	for _, op := range openAPI(t).Operations() {
		if op.ID != "publish" {
			continue
		}
		if want := slices.Sorted(maps.Keys(valid)); !slices.Equal(slices.Sorted(slices.Values(op.Headers)), want) {
			t.Errorf("the file has %q, want %q", op.Headers, want)
		}
		for _, name := range op.Headers {
			if a := r.call("POST", "/v1/queues/orders/messages", "x", name, valid[name]); a.StatusCode != http.StatusCreated {
				t.Errorf("%s: %s is answered %d %s", name, valid[name], a.StatusCode, a.body)
			}
		}
	}
}

// constants returns the values of the constants of a type in a file of package api.
func constants(t *testing.T, file, kind string) (all []string) {
	t.Helper()
	f, err := parser.ParseFile(gotoken.NewFileSet(), "../api/"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == kind {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return true
	})
	if len(all) < 4 {
		t.Fatalf("%d constants of type %s in %s", len(all), kind, file)
	}
	return all
}

func enum(t *testing.T, d *apitest.Document, name string) (all []string) {
	t.Helper()
	schema, _ := d.Schemas()[name].(map[string]any)
	words, _ := schema["enum"].([]any)
	for _, w := range words {
		all = append(all, w.(string))
	}
	return all
}

// Every error code and every settlement status is in the file, and goes with the HTTP status that the file says.
func TestOpenAPIHasEveryCode(t *testing.T) {
	d := openAPI(t)
	sorted := func(all []string) []string { slices.Sort(all); return slices.Compact(all) }
	codes, statuses := constants(t, "errors.go", "Code"), constants(t, "delivery.go", "Status")
	if got := sorted(enum(t, d, "Status")); !slices.Equal(got, sorted(statuses)) {
		t.Errorf("settlement statuses %q, want %q", got, statuses)
	}
	asCodes := slices.DeleteFunc(slices.Clone(statuses), func(s string) bool { return s == string(api.StatusOK) })
	if got, want := sorted(enum(t, d, "Code")), sorted(append(slices.Clone(codes), asCodes...)); !slices.Equal(got, want) {
		t.Errorf("codes %q, want %q", got, want)
	}
	used := map[string]bool{}
	for _, op := range d.Operations() {
		for status, a := range op.Answers {
			for _, code := range a.Codes {
				used[code] = true
				if !slices.Contains(codes, code) { // settled one by one: the status is the code
					if status != "409" || !slices.Contains(asCodes, code) {
						t.Errorf("%s: code %s with status %s", op.ID, code, status)
					}
				} else if want := strconv.Itoa(api.Code(code).HTTPStatus()); status != want && status != "default" {
					t.Errorf("%s: code %s with status %s, and it goes with %s", op.ID, code, status, want)
				}
			}
		}
	}
	for _, code := range append(codes, asCodes...) {
		if !used[code] {
			t.Errorf("no call is answered %s, by the file", code)
		}
	}
}

// The page that explains the API has every call and every error code, with its status.
func TestProtocolPageAgreesWithOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	d, page := openAPI(t), string(text)
	for _, op := range d.Operations() {
		var parts []string
		for part := range strings.SplitSeq(op.Path, "/") {
			if pathName.MatchString(part) {
				part = `[^/\s?]*` // the name, or an example
			}
			parts = append(parts, part)
		}
		if !regexp.MustCompile(strings.Join(parts, "/") + "[\\s'\"?`,]").MatchString(page) {
			t.Errorf("%s %s is not on the page", op.Method, op.Path)
		}
	}
	_, all, _ := strings.Cut(page, "## All errors")
	all, _, _ = strings.Cut(all, "\n## ")
	var onPage []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(all, -1) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			if m[1] == "allow_uids" || m[1] == "allow_gids" {
				continue
			}
			onPage = append(onPage, m[1])
			if want := strconv.Itoa(api.Code(m[1]).HTTPStatus()); want != row[1] && row[1] != "409" {
				t.Errorf("%s is in the row of %s, and goes with %s", m[1], row[1], want)
			}
		}
	}
	want := enum(t, d, "Code")
	slices.Sort(want)
	if slices.Sort(onPage); !slices.Equal(onPage, want) {
		t.Errorf("the page has %q, and the file %q", onPage, want)
	}
}

// Every type of an answer is a schema of the same name: with the same members, and those required that are always there.
func TestOpenAPIHasEveryMember(t *testing.T) {
	schemas := openAPI(t).Schemas()
	for _, v := range []any{
		api.Published{}, api.BatchMessage{}, api.BatchResult{}, api.Delivery{}, api.Settlement{}, api.SettleResult{}, api.SettleResponse{},
		api.SettleFailed{}, api.Event{}, api.AgentStatus{}, api.BrokerStatus{}, api.CapsuleStatus{}, api.CapsuleQueue{}, api.Peer{},
		api.QueueSummary{}, api.QueueList{}, api.QueueStatus{}, api.LevelStat{}, api.KeyStat{}, api.Peeked{}, api.PeekList{}, api.Said{},
		api.Paused{}, api.KeyWeight{}, api.Purged{}, api.QueueControls{}, api.PausedKey{}, api.SetWeight{}, api.DeadLetter{}, api.DeadList{},
		api.DeadRetry{}, api.DeadRetried{}, api.DeadFailed{}, api.DeadPurged{}, api.Delayed{}, api.DelayedList{}, api.Overview{}, api.QueueOverview{}, api.LevelOverview{}, api.TenantOverview{}, api.TenantsOverview{}, api.Error{}, api.ErrorBody{},
	} {
		typ := reflect.TypeOf(v)
		schema, ok := schemas[typ.Name()].(map[string]any)
		if !ok {
			t.Errorf("the file has no schema %s", typ.Name())
			continue
		}
		all, always := members(typ)
		switch typ { // written by hand, and not by their tags
		case reflect.TypeFor[api.Settlement]():
			always = []string{"result", "token"}
		case reflect.TypeFor[api.BatchResult]():
			always = nil
		}
		properties, _ := schema["properties"].(map[string]any)
		if got := slices.Sorted(maps.Keys(properties)); !slices.Equal(got, all) {
			t.Errorf("%s has the members %q in the file, want %q", typ.Name(), got, all)
		}
		var required []string
		text, _ := json.Marshal(schema["required"])
		_ = json.Unmarshal(text, &required)
		if slices.Sort(required); !slices.Equal(required, always) {
			t.Errorf("%s requires %q in the file, and %q are always there", typ.Name(), required, always)
		}
	}
}

// members lists the JSON members of a type, and those that are always there, sorted.
func members(typ reflect.Type) (all, always []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			inner, innerAlways := members(f.Type)
			all, always = append(all, inner...), append(always, innerAlways...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if !strings.HasPrefix(options, "omit") {
			always = append(always, name)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	return all, always
}
