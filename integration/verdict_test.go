package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/integration/history"
)

// An event is a line of the event log from which the fault matrix is made: a fault that was injected, or a verdict on a
// promise. The log is the file that FAIRLEAD_FAULT_LOG names; without it nothing is written.
type event struct {
	At      time.Time `json:"at"`
	Test    string    `json:"test"`
	Fault   string    `json:"fault,omitempty"`
	Target  string    `json:"target,omitempty"`
	Promise string    `json:"promise,omitempty"`
	Held    bool      `json:"held,omitempty"`
	Figures string    `json:"figures,omitempty"`
}

var eventLog sync.Mutex

func record(t *testing.T, e event) {
	name := os.Getenv("FAIRLEAD_FAULT_LOG")
	if name == "" {
		return
	}
	e.At, e.Test = time.Now(), t.Name()
	line, err := json.Marshal(e)
	if err != nil {
		t.Error(err)
		return
	}
	eventLog.Lock()
	defer eventLog.Unlock()
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		t.Error(err)
	}
}

// injected notes that a fault was injected, just now.
func injected(t *testing.T, fault, target string) {
	record(t, event{Fault: fault, Target: target})
}

// verdict notes whether a promise was held, with figures, and fails the test if not.
func verdict(t *testing.T, promise string, held bool, format string, args ...any) {
	t.Helper()
	figures := fmt.Sprintf(format, args...)
	record(t, event{Promise: promise, Held: held, Figures: figures})
	if !held {
		t.Errorf("%s was not held: %s", promise, figures)
	}
}

// judged is a verdict on what a checker found in a record.
func judged(t *testing.T, h *history.History, promise string, found []string) {
	t.Helper()
	if n := len(found); n > 20 {
		found = append(found[:20], fmt.Sprintf("… %d more", n-20))
	}
	if len(found) > 0 {
		t.Errorf("the record of %d hand-overs shows\n%s", len(h.Hands), strings.Join(found, "\n"))
	}
	verdict(t, promise, len(found) == 0, "%d stored, %d hand-overs, %d findings", len(h.Stored), len(h.Hands), len(found))
}
