package probes

import (
	"io"
	"net/http"
)

// handler routes the three paths.
func handler(o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			say(w, http.StatusMethodNotAllowed, "this address is read-only: use GET or HEAD")
			return
		}
		switch r.URL.Path {
		case "/livez":
			say(w, http.StatusOK, "ok")
		case "/readyz":
			if err := o.Ready(); err != nil {
				say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
				return
			}
			say(w, http.StatusOK, "ok")
		case "/metrics":
			o.Metrics.ServeHTTP(w, r)
		default:
			say(w, http.StatusNotFound, "there are /livez, /readyz and /metrics here")
		}
	})
}

func say(w http.ResponseWriter, status int, line string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n")
}
