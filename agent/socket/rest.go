package socket

import (
	"io"
	"net/http"
	"time"
)

const (
	// restHTTP is up to how many unread bytes of a body the HTTP server reads by itself after an answer.
	restHTTP = 256 << 10
	// restTime bounds how long the rest of a refused body is read.
	restTime = 2 * time.Second
)

// sendsMore reports whether the client may be sending more of a body than the HTTP server reads by itself. If so, it
// lets the body be read after the answer was written.
func (x *exchange) sendsMore(status int) bool {
	if x.heard || x.r.Body == http.NoBody || x.r.ContentLength <= restHTTP && status != http.StatusRequestEntityTooLarge {
		return false
	}
	return x.rc.EnableFullDuplex() == nil
}

// hearOut sends the answer, and then reads what else the client sends, for a while, and drops it. Many clients look for an
// answer only when they have sent everything: if the connection were closed before, their own write would break, and they
// would never see why they were refused.
func (x *exchange) hearOut() {
	if x.rc.Flush() != nil || x.rc.SetReadDeadline(time.Now().Add(restTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, x.r.Body, x.limits.BodyBytes)
}
