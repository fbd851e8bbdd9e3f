package socket

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// session keeps a response open. Its end, whatever ends it, is the end of the session.
func (x *exchange) session() error {
	if _, err := x.query(); err != nil {
		return err
	}
	if err := x.noBody(); err != nil {
		return err
	}
	s := x.Book.OpenSession()
	defer x.Book.End(s)
	x.head(http.StatusOK, api.TypeNDJSON, -1)
	if !x.tell(api.Event{Session: s.ID()}) {
		return nil
	}
	ping := time.NewTicker(x.limits.PingInterval)
	defer ping.Stop()
	draining := x.Draining
	for {
		events := []api.Event{{Event: "ping"}}
		select {
		case <-ping.C:
		case <-s.Signal():
			events = x.Book.Events(s)
		case <-draining:
			draining = nil
			events[0].Event = "draining"
		case <-s.Context().Done(): // the book was closed
			return nil
		case <-x.stopping.Done():
			return nil
		case <-x.r.Context().Done():
			return nil
		}
		if !x.tell(events...) {
			return nil
		}
	}
}

// tell writes events. It is false when the client is gone.
func (x *exchange) tell(events ...api.Event) bool {
	var lines []byte
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			x.log.Error("an event could not be encoded", "error", err)
			return false
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := x.w.Write(lines); err != nil {
		return false
	}
	return x.rc.Flush() == nil
}
