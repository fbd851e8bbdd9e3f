package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/config"
)

// needy are queues that need every kind of permission.
func needy() []config.Queue {
	return []config.Queue{
		definition(func(q *config.Queue) { q.ConcurrencyPerKey, q.DeadLetters.Enabled = 2, true }),
		definition(func(q *config.Queue) { q.Name, q.SingleActiveConsumer, q.FairShare.Enabled = "strict", true, false }),
	}
}

func allowed(list []rights.Permission) *server.Permissions {
	p := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
	for _, one := range list {
		if one.Direction == rights.Subscribe {
			p.Subscribe.Allow = append(p.Subscribe.Allow, one.Subject)
		} else {
			p.Publish.Allow = append(p.Publish.Allow, one.Subject)
		}
	}
	return p
}

// With all permissions but one, the check says which one is missing, and nothing else; with all of them, nothing.
func TestCheckAccessNamesEachMissingPermission(t *testing.T) {
	all := rights.OfAgent(names.New("fl", "fairlead"), needy())
	if len(all) < 50 {
		t.Fatalf("only %d permissions", len(all))
	}
	s := newOutside(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "admin"}, {Username: "all", Password: "all", Permissions: allowed(all)}}
		for i := range all {
			name := fmt.Sprint("without", i)
			o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: allowed(slices.Delete(slices.Clone(all), i, i+1))})
		}
	})
	s.user = "admin:admin@"
	owner := connect(t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	if _, err := owner.Bucket().Ensure(within(t), 1); err != nil {
		t.Fatal(err)
	}
	for _, q := range needy() {
		if err := owner.EnsureStream(within(t), q); err != nil {
			t.Fatal(err)
		}
	}
	check := func(t *testing.T, user string) []string {
		url := strings.Replace(s.url(), s.user, user+":"+user+"@", 1)
		c, err := Connect(within(t), Options{NATS: config.NATS{URLs: []string{url}, Prefix: "fl"}, Bucket: "fairlead", Queues: needy(), Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c.CheckAccess(within(t), needy())
	}
	if problems := check(t, "all"); problems != nil {
		t.Errorf("with all permissions: %q", problems)
	}
	for i, missing := range all {
		t.Run(fmt.Sprint(missing.Direction, " ", missing.Subject), func(t *testing.T) {
			t.Parallel()
			problems := check(t, fmt.Sprint("without", i))
			if len(problems) != 1 || !strings.Contains(problems[0], `allow it`) || !strings.Contains(problems[0], strings.TrimRight(missing.Subject, ".*>")) {
				t.Errorf("problems are %q", problems)
			}
		})
	}
}
