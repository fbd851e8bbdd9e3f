package socket

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// What is wrong with a JSON body is said in the words of its sender. The names of Go's types tell them nothing.
func TestWhatIsWrongWithAJSONBody(t *testing.T) {
	app, admin := newRig(t), newRig(t, func(o *Options) { o.Face = Admin })
	for _, c := range []struct {
		r                        *rig
		method, path, body, says string
	}{
		{app, "POST", "/v1/settle", `{}`, "a JSON object is not expected here"},
		{app, "POST", "/v1/settle", `[1]`, "a JSON number is not expected here"},
		{app, "POST", "/v1/settle", `[{"token":1,"result":"ack"}]`, "token cannot be a JSON number"},
		{app, "POST", "/v1/settle", `[{"token":"x","result":"ack"}`, "it ends too early"},
		{app, "POST", "/v1/settle", `[{"tokn":"x"}]`, `unknown field "tokn"`},
		{app, "POST", pullPath, `"x"`, "a JSON string is not expected here"},
		{admin, "PUT", "/v1/queues/orders/keys/acme/weight", `3`, "a JSON number is not expected here"},
		{admin, "PUT", "/v1/queues/orders/keys/acme/weight", ``, "it is empty"},
		{admin, "POST", "/v1/queues/orders/dead/retry", `[]`, "a JSON array is not expected here"},
		{admin, "POST", "/v1/queues/orders/dead/retry", `{"seqs":["x"]}`, "seqs cannot be a JSON string"},
		{app, "POST", "/v1/queues/orders/batch", `17`, "a JSON number is not expected here"},
		{app, "POST", "/v1/queues/orders/batch", `{"data":"x","headers":[]}`, "headers cannot be a JSON array"},
	} {
		a := c.r.call(c.method, c.path, c.body)
		var got api.ErrorBody
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Error == nil || got.Error.Code != api.CodeBadRequest {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.StatusCode, a.body)
			continue
		}
		if m := got.Error.Message; !strings.Contains(m, c.says) || strings.Contains(m, "Go ") || strings.Contains(m, "api.") {
			t.Errorf("%s %s: %q does not say %q", c.path, c.body, m, c.says)
		}
	}
}
