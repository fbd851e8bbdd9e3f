package socket

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// from makes the queue take its keys from somewhere.
func (r *rig) from(k *config.KeyFrom) {
	q := r.queues["orders"]
	q.FairShare.KeyFrom = k
	r.queues["orders"] = q
}

// stored1 is the one publication that came since the last call.
func (r *rig) stored1(seen *int) broker.Publication {
	r.t.Helper()
	all := r.stored()
	if len(all) != *seen+1 {
		r.t.Fatalf("%d publications, want %d", len(all), *seen+1)
	}
	*seen++
	return all[*seen-1]
}

func TestKeyFromWhatIsPublished(t *testing.T) {
	r := newRig(t)
	seen := 0
	header, field := &config.KeyFrom{Header: "X-Tenant"}, &config.KeyFrom{JSON: "tenant.id"}
	for _, tt := range []struct {
		name    string
		from    *config.KeyFrom
		body    string
		headers []string
		want    string
	}{
		{"from nowhere", nil, `{"tenant":{"id":"acme"}}`, []string{"Fairlead-Header-X-Tenant", "acme"}, ""},
		{"header", header, "x", []string{"Fairlead-Header-X-Tenant", "acme"}, "acme"},
		{"header in another case", header, "x", []string{"fairlead-header-x-tenant", "acme"}, "acme"},
		{"header as it is", header, "x", []string{"Fairlead-Header-X-Tenant", "caf%C3%A9 é"}, "caf%C3%A9 é"},
		{"the request's own header", header, "x", []string{"X-Tenant", "acme"}, "acme"},
		{"an application header wins over the request's", header, "x", []string{"X-Tenant", "other", "Fairlead-Header-X-Tenant", "acme"}, "acme"},
		{"a key that was given wins over the request's header", header, "x", []string{"X-Tenant", "acme", api.HeaderKey, "given"}, "given"},
		{"no such header", header, `{"tenant":{"id":"acme"}}`, []string{"X-Tenants", "acme"}, ""},
		{"empty header", header, "x", []string{"Fairlead-Header-X-Tenant", ""}, ""},
		{"a key that was given wins over a header", header, "x", []string{"Fairlead-Header-X-Tenant", "acme", api.HeaderKey, "given"}, "given"},
		{"field", field, `{"order":1,"tenant":{"id":"acme"}}`, nil, "acme"},
		{"number", field, `{"tenant":{"id":17}}`, nil, "17"},
		{"boolean", field, `{"tenant":{"id":false}}`, nil, "false"},
		{"escapes", field, `{"tenant":{"id":"caf\u00e9"}}`, nil, "café"},
		{"no such field", field, `{"tenant":{"name":"acme"}}`, nil, ""},
		{"null", field, `{"tenant":{"id":null}}`, nil, ""},
		{"an object", field, `{"tenant":{"id":{}}}`, nil, ""},
		{"no JSON", field, "tenant=acme", nil, ""},
		{"nothing", field, "", nil, ""},
		{"binary", field, "\x00\xff{", nil, ""},
		{"a key that was given wins over a field", field, `{"tenant":{"id":"acme"}}`, []string{api.HeaderKey, "given"}, "given"},
	} {
		r.from(tt.from)
		a := r.call("POST", ordersPath, tt.body, tt.headers...)
		var published api.Published
		if err := json.Unmarshal([]byte(a.body), &published); err != nil || a.StatusCode != 201 || published.Key != tt.want {
			t.Errorf("%s: %d %s, want key %q", tt.name, a.StatusCode, a.body, tt.want)
		}
		if p := r.stored1(&seen); p.Key != tt.want || string(p.Data) != tt.body {
			t.Errorf("%s: stored with key %q and %q", tt.name, p.Key, p.Data)
		}
	}
}

func TestKeysOfBatchLinesAreFoundToo(t *testing.T) {
	r := newRig(t)
	seen := 0
	header, field := &config.KeyFrom{Header: "X-Tenant"}, &config.KeyFrom{JSON: "tenant.id"}
	for _, tt := range []struct {
		from *config.KeyFrom
		line string
		want string
	}{
		{header, `{"data":"x","headers":{"x-TENANT":"acme"}}`, "acme"},
		{header, `{"data":"x","headers":{"x-TENANT":"acme"},"key":"given"}`, "given"},
		{header, `{"data":"x"}`, ""},
		{field, `{"data":{"tenant":{"id":"acme"}}}`, "acme"},
		{field, `{"data":"{\"tenant\":{\"id\":\"acme\"}}"}`, "acme"},
		{field, `{"data_base64":"eyJ0ZW5hbnQiOnsiaWQiOiJhY21lIn19"}`, "acme"},
		{field, `{"data":{"tenant":{"id":"acme"}},"key":"given"}`, "given"},
		{field, `{"data":["tenant"]}`, ""},
	} {
		r.from(tt.from)
		a := r.call("POST", batchPath, tt.line)
		if p := r.stored1(&seen); p.Key != tt.want {
			t.Errorf("%s: stored with key %q, want %q: %s", tt.line, p.Key, tt.want, a.body)
		}
	}
}

// A key that cannot be used is told, and the message names where it came from.
func TestUnusableKeysThatWereFoundAreTold(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("k", 129)
	for _, tt := range []struct {
		from          *config.KeyFrom
		body, header  string
		line, mention string
	}{
		{&config.KeyFrom{Header: "X-Tenant"}, "x", long, `{"data":"x","headers":{"X-Tenant":"` + long + `"}}`, "header X-Tenant"},
		{&config.KeyFrom{Header: "X-Tenant"}, "x", strings.Repeat("é", 22), `{"data":"x","headers":{"X-Tenant":"` + strings.Repeat("é", 22) + `"}}`, "header X-Tenant"},
		{&config.KeyFrom{JSON: "a"}, `{"a":"` + long + `"}`, "", `{"data":{"a":"` + long + `"}}`, "field a"},
		{&config.KeyFrom{JSON: "a"}, `{"a":"` + strings.Repeat(".", 43) + `"}`, "", `{"data":{"a":"` + strings.Repeat(".", 43) + `"}}`, "field a"},
		{&config.KeyFrom{JSON: "a"}, "{\"a\":\"\xff\"}", "", `{"data_base64":"eyJhIjoi/yJ9"}`, "field a"},
	} {
		r.from(tt.from)
		a := r.call("POST", ordersPath, tt.body, "Fairlead-Header-X-Tenant", tt.header)
		wantError(t, a, 400, api.CodeInvalidKey)
		if !strings.Contains(a.body, tt.mention) {
			t.Errorf("%s does not mention %s", a.body, tt.mention)
		}
		if a := r.call("POST", batchPath, tt.line); !strings.Contains(a.body, `"invalid_key"`) || !strings.Contains(a.body, tt.mention) {
			t.Errorf("batch line %.60s: %s", tt.line, a.body)
		}
	}
	if n := len(r.stored()); n != 0 {
		t.Errorf("%d were stored all the same", n)
	}
}

// switching is a publisher whose definition changes.
type switching struct {
	*fakeAgent
	definition func() config.Queue
}

func (s switching) Definition(string) (config.Queue, bool) { return s.definition(), true }

// A batch that goes on for long follows the definition in force.
func TestALongBatchFollowsTheDefinition(t *testing.T) {
	changed := make(chan struct{})
	r := newRig(t, func(o *Options) {
		f, _ := o.Publisher.(*fakeAgent)
		o.Publisher = switching{f, func() config.Queue {
			q := f.queues["orders"]
			select {
			case <-changed:
				q.FairShare.KeyFrom = &config.KeyFrom{JSON: "tenant"}
			default:
			}
			return q
		}}
	})
	body, lines := io.Pipe()
	go func() {
		_, _ = fmt.Fprintln(lines, `{"data":{"tenant":"acme"}}`)
		for end := time.Now().Add(10 * time.Second); len(r.stored()) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		close(changed)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_, _ = fmt.Fprintln(lines, `{"data":{"tenant":"acme"}}`)
			if all := r.stored(); len(all) > 0 && all[len(all)-1].Key == "acme" {
				break
			}
		}
		_ = lines.Close()
	}()
	res, err := r.client.Post("http://fairlead"+batchPath, api.TypeNDJSON, body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	all := r.stored()
	if all[0].Key != "" || all[len(all)-1].Key != "acme" {
		t.Errorf("keys %q … %q, want none at first and acme at the end", all[0].Key, all[len(all)-1].Key)
	}
}
