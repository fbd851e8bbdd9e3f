package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/config"
)

// What this identity may not make is told in the server's words, and not after a wait for an answer that never comes.
func TestWhoMayNotMakeStreamsIsTold(t *testing.T) {
	s := newOutside(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "weak", Password: "weak", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Deny: []string{"$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.INFO.FL_Q_hidden"},
			}}},
		}
	})
	s.user = "admin:admin@"
	strong := s.rig(nil)
	s.user = "weak:weak@"
	named := func(name string) config.Queue { return definition(func(q *config.Queue) { q.Name = name }) }
	weak, err := Connect(within(t), Options{
		NATS: config.NATS{URLs: []string{s.url()}, Prefix: "fl"}, Bucket: "fairlead", Agent: "weak", Logger: hclog.NewNullLogger(),
		Queues: []config.Queue{strong.q, named("fresh"), named("hidden")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weak.Close)
	changed := strong.q
	changed.Limits.MaxMessages = 7
	for subject, err := range map[string]error{
		"STREAM.CREATE.FL_Q_fresh":  weak.EnsureStream(within(t), named("fresh")),
		"STREAM.INFO.FL_Q_hidden":   weak.EnsureStream(within(t), named("hidden")),
		"STREAM.UPDATE.FL_Q_orders": weak.EnsureStream(within(t), changed),
	} {
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), subject) {
			t.Errorf("%s: %v", subject, err)
		}
		setup := !strings.HasPrefix(subject, "STREAM.INFO.")
		if told := strings.Contains(fmt.Sprint(err), `"fairlead permissions --setup"`); told != setup {
			t.Errorf("%s: it names the list of what setting up needs: %t: %v", subject, told, err)
		}
	}
	if err := weak.EnsureStream(within(t), strong.q); err != nil {
		t.Errorf("a stream that is as it should be: %v", err)
	}
}
