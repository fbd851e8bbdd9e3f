package socket

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
)

// route is one call of the API. A {} in its path is a name: of a queue, a capsule or a token. Only the first is decoded.
type route struct {
	method string
	path   string
	faces  []Face
	serve  func(*exchange) error

	parts []string
}

var (
	onApp   = []Face{App}
	onAdmin = []Face{Admin}
	onBoth  = []Face{App, Admin}
)

// table is the API.
var table = newTable()

func newTable() []route {
	all := []route{
		{method: "POST", path: "/v1/queues/{}/messages", faces: onApp, serve: (*exchange).publish},
		{method: "POST", path: "/v1/queues/{}/batch", faces: onApp, serve: (*exchange).batch},
		{method: "POST", path: "/v1/capsules/{}/pull", faces: onApp, serve: (*exchange).pull},
		{method: "POST", path: "/v1/capsules/{}/next", faces: onApp, serve: (*exchange).next},
		{method: "POST", path: "/v1/settle", faces: onApp, serve: (*exchange).settle},
		{method: "POST", path: "/v1/messages/{}/ack", faces: onApp, serve: verb(api.Ack)},
		{method: "POST", path: "/v1/messages/{}/nack", faces: onApp, serve: verb(api.Nack)},
		{method: "POST", path: "/v1/messages/{}/reject", faces: onApp, serve: verb(api.Reject)},
		{method: "POST", path: "/v1/messages/{}/extend", faces: onApp, serve: verb(api.Extend)},
		{method: "GET", path: "/v1/session", faces: onApp, serve: (*exchange).session},

		{method: "GET", path: "/v1/status", faces: onBoth, serve: (*exchange).status},
		{method: "GET", path: "/v1/overview", faces: onBoth, serve: (*exchange).overview},
		{method: "GET", path: "/v1/queues", faces: onBoth, serve: (*exchange).queues},
		{method: "GET", path: "/v1/queues/{}", faces: onBoth, serve: (*exchange).queue},
		{method: "GET", path: "/v1/queues/{}/peek", faces: onBoth, serve: (*exchange).peek},

		{method: "GET", path: "/v1/queues/{}/delayed", faces: onAdmin, serve: (*exchange).delayed},
		{method: "DELETE", path: "/v1/queues/{}/delayed/{}", faces: onAdmin, serve: (*exchange).cancelDelayed},
		{method: "GET", path: "/v1/queues/{}/dead", faces: onAdmin, serve: (*exchange).deadList},
		{method: "GET", path: "/v1/queues/{}/dead/{}", faces: onAdmin, serve: (*exchange).deadShow},
		{method: "POST", path: "/v1/queues/{}/dead/retry", faces: onAdmin, serve: (*exchange).deadRetry},
		{method: "POST", path: "/v1/queues/{}/dead/purge", faces: onAdmin, serve: (*exchange).deadPurge},
		{method: "POST", path: "/v1/drain", faces: onAdmin, serve: (*exchange).drain},
		{method: "POST", path: "/v1/queues/{}/pause", faces: onAdmin, serve: (*exchange).pause},
		{method: "POST", path: "/v1/queues/{}/resume", faces: onAdmin, serve: (*exchange).resume},
		{method: "POST", path: "/v1/queues/{}/purge", faces: onAdmin, serve: (*exchange).purge},
		{method: "POST", path: "/v1/queues/{}/keys/{}/pause", faces: onAdmin, serve: (*exchange).pause},
		{method: "POST", path: "/v1/queues/{}/keys/{}/resume", faces: onAdmin, serve: (*exchange).resume},
		{method: "POST", path: "/v1/queues/{}/keys/{}/purge", faces: onAdmin, serve: (*exchange).purge},
		{method: "GET", path: "/v1/queues/{}/keys/{}/weight", faces: onAdmin, serve: (*exchange).weight},
		{method: "PUT", path: "/v1/queues/{}/keys/{}/weight", faces: onAdmin, serve: (*exchange).setWeight},
		{method: "DELETE", path: "/v1/queues/{}/keys/{}/weight", faces: onAdmin, serve: (*exchange).unsetWeight},
	}
	for i := range all {
		all[i].parts = strings.Split(all[i].path, "/")
	}
	return all
}

// find returns the route of a request, and the name in its path. For a method that the path does not have it sets the header
// Allow.
func (s *Server) find(r *http.Request, h http.Header) (*route, string, error) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	var other []string // methods that the path has
	var elsewhere bool
	for i := range table {
		rt := &table[i]
		name, ok := rt.match(parts)
		if !ok {
			continue
		}
		if !slices.Contains(rt.faces, s.Face) {
			elsewhere = elsewhere || rt.method == r.Method
			continue
		}
		if rt.method == r.Method {
			decoded, err := url.PathUnescape(name)
			if err != nil {
				return nil, "", badRequest("the path cannot be read: %v", err)
			}
			return rt, decoded, nil
		}
		if !slices.Contains(other, rt.method) {
			other = append(other, rt.method)
		}
	}
	if len(other) > 0 && !elsewhere {
		h["Allow"] = []string{strings.Join(other, ", ")}
	}
	return nil, "", s.notFound(r, elsewhere, other)
}

func (s *Server) notFound(r *http.Request, elsewhere bool, methods []string) *api.Error {
	switch {
	case elsewhere && s.Face == App:
		return &api.Error{Code: api.CodeNotFound, Message: "this is a call for operators: use the admin socket"}
	case elsewhere:
		return &api.Error{Code: api.CodeNotFound, Message: "this is a call for apps: use the app socket"}
	case len(methods) > 0:
		return &api.Error{Code: api.CodeMethodNotAllowed, Message: "use " + strings.Join(methods, " or ") + " here, not " + cut(r.Method, 32)}
	}
	return &api.Error{Code: api.CodeNotFound, Message: "no such call: " + cut(r.URL.Path, 128) + "; all calls begin with /v1/, see the protocol's documentation"}
}

// match compares a path's parts; name is the first that a {} stands for.
func (rt *route) match(parts []string) (name string, ok bool) {
	if len(parts) != len(rt.parts) {
		return "", false
	}
	for i, p := range rt.parts {
		if p != "{}" {
			if p != parts[i] {
				return "", false
			}
			continue
		}
		if parts[i] == "" && rt.parts[i-1] != "keys" { // the key of messages without one has no bytes
			return "", false
		}
		if name == "" {
			name = parts[i]
		}
	}
	return name, true
}

// cut shortens what a client sent, for messages. It may cut inside of a character: JSON replaces what is left of it.
func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
