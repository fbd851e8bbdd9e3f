package dashboard

import (
	"embed"
	"io"
	"net/http"
	"strconv"
)

//go:embed page
var files embed.FS

// asset is one file of the page.
type asset struct{ file, kind string }

var assets = map[string]asset{
	"/":         {"page/index.html", "text/html; charset=utf-8"},
	"/app.js":   {"page/app.js", "text/javascript; charset=utf-8"},
	"/app.css":  {"page/app.css", "text/css; charset=utf-8"},
	"/icon.svg": {"page/icon.svg", "image/svg+xml"},
}

// policy lets the page load its own files and ask its own server, and nothing else; and nobody may put it into a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type handler struct {
	Options
	hosts   hosts
	stopped <-chan struct{}
	viewers chan struct{} // one for each
}

func newHandler(o Options, stopped <-chan struct{}) *handler {
	return &handler{Options: o, hosts: hostsOf(o.Address), stopped: stopped, viewers: make(chan struct{}, MaxViewers)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	switch {
	case !h.hosts.allows(r.Host):
		say(w, http.StatusMisdirectedRequest, "the dashboard answers to the address that listen.dashboard_http names, and to localhost: open it there (a port-forward will do)")
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		say(w, http.StatusMethodNotAllowed, "the dashboard is read-only: use GET or HEAD; the command line and the admin socket change things")
		return
	case r.URL.Path == "/events":
		h.events(w, r)
		return
	}
	a, ok := assets[r.URL.Path]
	if !ok {
		say(w, http.StatusNotFound, "there is one page here: /")
		return
	}
	data, err := files.ReadFile(a.file)
	if err != nil {
		say(w, http.StatusInternalServerError, "the page is not there")
		return
	}
	header.Set("Content-Type", a.kind)
	header.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // of HEAD, the server writes no body
}

func say(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n")
}
