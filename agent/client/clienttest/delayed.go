package clienttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// delay keeps a message that was published with a delay. It never comes.
func (a *Agent) delay(m *Message, after time.Duration) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := api.Delayed{
		Handle: fmt.Sprintf("00000000000-%012x", len(a.delayed)+1), At: time.Now().Add(after).UTC(),
		Priority: m.Priority, Key: m.Key, ID: m.ID, Bytes: len(m.DataBase64), PublishedAt: time.Now().UTC(),
	}
	a.delayed = append(a.delayed, d)
	return d.Handle
}

func (a *Agent) listDelayed(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("queue") != a.Queue {
		fail(w, unknownQueue(r.PathValue("queue")))
		return
	}
	most, err := strconv.Atoi(r.URL.Query().Get("max"))
	if err != nil {
		most = 100
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer(w, http.StatusOK, api.DelayedList{Delayed: a.delayed[:min(len(a.delayed), most)], Total: uint64(len(a.delayed))})
}

func (a *Agent) cancelDelayed(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.delayed, func(d api.Delayed) bool { return d.Handle == r.PathValue("handle") })
	if i < 0 {
		fail(w, &api.Error{Code: api.CodeUnknownHandle, Message: "no delayed message has this handle"})
		return
	}
	a.delayed = slices.Delete(a.delayed, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}
