package main

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// Where stdout is no terminal, top prints everything once.
func TestTopIntoAPipe(t *testing.T) {
	s := newShell(t, clienttest.New(t))
	s.must(0, "publish", "default", "--key", "acme", "x")
	for _, args := range [][]string{{"top", "--interval", "100ms"}, {"top", "--once", "--interval", "100ms", "--view", "leases"}} {
		out := s.must(0, args...)
		if strings.Contains(out, "\x1b") || !strings.Contains(out, "agent test-1, active") || !strings.Contains(out, "QUEUE    WAITING") || !strings.Contains(out, "PEER") {
			t.Errorf("%q prints\n%s", args, out)
		}
	}
	if out := s.must(0, "top", "--interval", "100ms", "--filter", "TEST-2"); !strings.Contains(out, "PEER") || strings.Contains(out, "QUEUE    WAITING") {
		t.Errorf("filtered:\n%s", out)
	}
}

func TestTopUsage(t *testing.T) {
	s := newShell(t, clienttest.New(t))
	for _, args := range [][]string{{"top", "--interval", "1ms"}, {"top", "--interval", "2m"}, {"top", "--view", "nothing"}, {"top", "orders"}} {
		s.must(exitUsage, args...)
	}
	newShell(t, nil).must(exitUnavailable, "top")
}
