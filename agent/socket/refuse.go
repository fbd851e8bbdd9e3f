package socket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// maxRefusals is how many connections are being told at a time why they are refused. Beyond it they are just closed.
const maxRefusals = 64

// refusalTime bounds how long a refused connection is listened to.
const refusalTime = time.Second

// refuse answers a connection that gets no handler, and closes it, without blocking. The request is read before the answer
// is written, and the rest after it: some clients take an answer that comes first for a broken connection, and closing with
// unread data breaks their own write, so that they never see the reason.
func (s *Server) refuse(c net.Conn, e *api.Error) {
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	s.work.Go(func() {
		defer func() { <-s.refusals }()
		defer c.Close()
		body, err := json.Marshal(api.ErrorBody{Error: e})
		if err != nil {
			return
		}
		status := e.Code.HTTPStatus()
		_ = c.SetDeadline(time.Now().Add(refusalTime))
		awaitHead(c)
		_ = c.SetDeadline(time.Now().Add(refusalTime))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s: %s\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
			status, http.StatusText(status), api.TypeJSON, len(body), api.HeaderState, s.state(), body)
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	})
}

// awaitHead reads to about the end of a request's head. What it says does not matter.
func awaitHead(c io.Reader) {
	head := make([]byte, 0, 4<<10)
	for len(head) < cap(head) {
		n, err := c.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil || bytes.Contains(head, []byte("\r\n\r\n")) {
			return
		}
	}
}
