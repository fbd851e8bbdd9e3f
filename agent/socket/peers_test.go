package socket

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// Each list refuses what it is about, names the setting, and nothing else.
func TestAllowLists(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	nobody, us, ours := AllowList{UIDs: []uint32{uid + 1}, Setting: "the list"}, AllowList{UIDs: []uint32{uid}}, AllowList{GIDs: []uint32{gid}}
	const publish, batch, pull, next, peek, status = ordersPath, "/v1/queues/orders/batch", pullPath, "/v1/capsules/work/next", "/v1/queues/orders/peek", "/v1/status"
	for name, c := range map[string]struct {
		publishers, pullers AllowList
		lookers             []AllowList
		refused             []string
	}{
		"no lists":              {},
		"publishers":            {publishers: nobody, refused: []string{publish, batch}},
		"pullers":               {pullers: nobody, refused: []string{pull, next}},
		"lookers":               {lookers: []AllowList{nobody, nobody}, refused: []string{peek}},
		"one of several lists":  {lookers: []AllowList{nobody, us}},
		"a list for everybody":  {lookers: []AllowList{nobody, {}}},
		"listed in each":        {publishers: ours, pullers: us, lookers: []AllowList{ours}},
		"all lists refuse":      {publishers: nobody, pullers: nobody, lookers: []AllowList{nobody}, refused: []string{publish, batch, pull, next, peek}},
		"user and group differ": {publishers: AllowList{UIDs: []uint32{uid + 1}, GIDs: []uint32{gid + 1}, Setting: "the list"}, refused: []string{publish, batch}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) {
				o.Publishers = c.publishers
				o.Pullers = func(capsule string) AllowList {
					if capsule != "work" {
						return AllowList{}
					}
					return c.pullers
				}
				o.Lookers = func(string) []AllowList { return c.lookers }
			})
			for _, call := range []struct{ method, path, body string }{
				{"POST", publish, "x"}, {"POST", batch, `{"data":"x"}`}, {"POST", pull, ""}, {"POST", next, ""}, {"GET", peek, ""}, {"GET", status, ""},
			} {
				a := r.call(call.method, call.path, call.body)
				refused := false
				for _, path := range c.refused {
					refused = refused || path == call.path
				}
				if !refused {
					if a.StatusCode >= 400 {
						t.Errorf("%s: %d %s", call.path, a.StatusCode, a.body)
					}
					continue
				}
				wantError(t, a, 403, api.CodeForbidden)
				if !strings.Contains(a.body, "add it to the list") {
					t.Errorf("%s: %s does not say which list", call.path, a.body)
				}
			}
			wantError(t, r.call("POST", "/v1/capsules/none/next", ""), 404, api.CodeUnknownCapsule)
		})
	}
}

// Whose credentials cannot be read is on no list.
func TestAPeerThatIsNotKnown(t *testing.T) {
	list := AllowList{UIDs: []uint32{0}, Setting: "the list"}
	err := list.check(peer{err: errors.New("why")})
	if !errors.Is(err, errNoCredentials) {
		t.Errorf("%v", err)
	}
	if told := forbidden(err); told.Code != api.CodeForbidden || strings.Contains(told.Message, "why") {
		t.Errorf("%+v", told)
	}
	if err := (&AllowList{}).check(peer{err: errors.New("why")}); err != nil {
		t.Errorf("without a list: %v", err)
	}
}
