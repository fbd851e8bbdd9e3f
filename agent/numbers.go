package agent

import "net/http"

// numbers answers /metrics.
func (a *Agent) numbers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no metrics yet", http.StatusServiceUnavailable)
	})
}
