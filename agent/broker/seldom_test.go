package broker

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
	s := newSeldom(hclog.New(&hclog.LoggerOptions{Output: &out}))
	now := time.Unix(1, 0)
	s.now = func() time.Time { return now }
	lines := func() int { return strings.Count(out.String(), "\n") }
	for i := range 1000 {
		s.warn("one", "seq", i)
	}
	s.warn("other")
	if lines() != 2 || !strings.Contains(out.String(), "seq=0") {
		t.Errorf("1000 times the same, and another: %q", out.String())
	}
	now = now.Add(seldomPause)
	s.warn("one", "seq", 7)
	if lines() != 3 || !strings.Contains(out.String(), "not_logged=999") {
		t.Errorf("half a minute later: %q", out.String())
	}
	for i := range 10 * seldomMost {
		s.warn(fmt.Sprint("sentence ", i))
	}
	if len(s.said) > seldomMost {
		t.Errorf("%d sentences are remembered", len(s.said))
	}
}
