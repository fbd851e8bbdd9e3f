package seldom

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestSeldom(t *testing.T) {
	var out bytes.Buffer
	s := New(hclog.New(&hclog.LoggerOptions{Output: &out}))
	now := time.Unix(1, 0)
	s.now = func() time.Time { return now }
	lines := func() int { return strings.Count(out.String(), "\n") }
	for i := range 1000 {
		s.Warn("one", "seq", i)
	}
	s.Warn("other")
	if lines() != 2 || !strings.Contains(out.String(), "seq=0") {
		t.Errorf("1000 times the same, and another: %q", out.String())
	}
	now = now.Add(pause)
	s.Warn("one", "seq", 7)
	if lines() != 3 || !strings.Contains(out.String(), "not_logged=999") {
		t.Errorf("half a minute later: %q", out.String())
	}
	for i := range 10 * most {
		s.Warn(fmt.Sprint("sentence ", i))
	}
	if len(s.said) > most {
		t.Errorf("%d sentences are remembered", len(s.said))
	}
}
