package group

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/config"
)

func TestCompare(t *testing.T) {
	q := queue("orders", 2, 1000)
	record := func(change func(*config.Queue)) []byte {
		other := q
		change(&other)
		text, err := writeDefinition(other, "a1")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, row := range map[string]struct {
		record []byte
		want   []string // nil: they say the same
	}{
		"the same": {record(func(*config.Queue) {}), nil},
		"older":    {record(func(q *config.Queue) { q.Revision, q.StarvationGuard = 1, 7 }), []string{"revision 1 set by a1", "revision 2, differs in: starvation_guard", "as soon as an agent has it"}},
		"equal":    {record(func(q *config.Queue) { q.StarvationGuard = 5 }), []string{"differs in: starvation_guard", "when no live agent carries", "above 2"}},
		"newer":    {record(func(q *config.Queue) { q.Revision = 7 }), []string{"revision 7 set by a1", "differs in: revision", "above 7"}},
		"unusable": {[]byte("{"), []string{"cannot use it", "an unknown agent"}},
	} {
		got := Compare(q, row.record)
		if row.want == nil && got != "" || row.want != nil && !strings.HasPrefix(got, "queue orders: another definition is in force") {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range row.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
	}
}
