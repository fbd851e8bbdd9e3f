package tracing

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// failurePause is the shortest time between two lines about spans that could not be sent.
const failurePause = 30 * time.Second

// failures logs what goes wrong with spans. It implements otel.ErrorHandler.
type failures struct {
	log hclog.Logger

	mu    sync.Mutex
	next  time.Time
	quiet int // that were not logged since
}

// Handle implements otel.ErrorHandler.
func (f *failures) Handle(err error) {
	f.mu.Lock()
	now := time.Now()
	if now.Before(f.next) {
		f.quiet++
		f.mu.Unlock()
		return
	}
	quiet := f.quiet
	f.next, f.quiet = now.Add(failurePause), 0
	f.mu.Unlock()
	f.log.Warn("spans cannot be sent, and are dropped", "error", err, "more", quiet)
}
