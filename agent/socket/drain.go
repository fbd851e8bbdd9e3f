package socket

import (
	"net/http"
	"time"
)

// drainState is the answer of a drain.
type drainState struct {
	State string `json:"state"` // draining | drained
}

// drain starts draining. It answers when the agent has drained, or after wait that it goes on.
func (x *exchange) drain() error {
	q, err := x.query("wait")
	if err != nil {
		return err
	}
	patience, err := duration(q, "wait", 0, 24*time.Hour, -1)
	if err != nil {
		return err
	}
	if err := x.noBody(); err != nil {
		return err
	}
	// It goes on without the client, but not without the server, which ends with the agent.
	done := make(chan error, 1)
	x.work.Go(func() { done <- x.Control.Drain(x.stopping) })
	var timeout <-chan time.Time
	if patience >= 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case err := <-done:
		if err != nil && x.stopping.Err() == nil {
			return err
		}
		if err == nil {
			return x.json(http.StatusOK, drainState{"drained"})
		}
	case <-timeout:
	case <-x.stopping.Done():
	case <-x.r.Context().Done():
	}
	return x.json(http.StatusAccepted, drainState{"draining"})
}
