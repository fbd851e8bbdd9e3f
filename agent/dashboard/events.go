package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// retryMillis is after how long browsers connect again.
	retryMillis = 1000
	// silence is after how long something is written although there is nothing new, so that both sides notice when the other
	// has gone.
	silence = 5 * time.Second
)

// events writes each overview as an event, until the client goes or the server stops. Who reads slowly gets the newest one
// when there is room again.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		say(w, http.StatusForbidden, "this is for the dashboard's own page")
		return
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	select {
	case h.viewers <- struct{}{}:
		defer func() { <-h.viewers }()
	default:
		w.Header().Set("Retry-After", "5")
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("%d viewers are shown the dashboard, and no more are at a time: close one", MaxViewers))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-h.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	stream := &stream{w: w, control: http.NewResponseController(w)}
	_ = stream.control.SetReadDeadline(time.Time{}) // the request has been read; what it was given for that must not end it
	leave := h.Overviews.Watch()
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	if !stream.write("retry: %d\n\n", retryMillis) {
		return
	}
	for number := uint64(0); ; {
		wait, done := context.WithTimeoutCause(ctx, silence, errSilence)
		shot, err := h.Overviews.After(wait, number)
		done()
		switch {
		case errors.Is(err, errSilence):
			if !stream.write(": nothing new\n\n") {
				return
			}
		case err != nil:
			return
		default:
			number = shot.Number
			if !stream.write("id: %d\ndata: %s\n\n", number, shot.JSON) {
				return
			}
		}
	}
}

var errSilence = errors.New("dashboard: nothing new")

// stream writes events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// write writes one event and tells whether the client is still there.
func (s *stream) write(format string, args ...any) bool {
	if s.control.SetWriteDeadline(time.Now().Add(answerTime)) != nil {
		return false
	}
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
