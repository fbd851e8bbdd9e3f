package socket

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/agent/api"
)

// AllowList says which peers may do something, by the user and primary group ids that the kernel tells of a connection's
// other end, as of the time of connect. The zero value allows everybody.
type AllowList struct {
	UIDs, GIDs []uint32
	// Setting is where the list stands in the file, for whoever is refused.
	Setting string
}

func (l *AllowList) open() bool { return len(l.UIDs) == 0 && len(l.GIDs) == 0 }

// errNoCredentials says that the other end of a connection is not known. A list that cannot be looked at allows nobody.
var errNoCredentials = errors.New("socket: the credentials of this connection could not be read")

// peer is the other end of a connection.
type peer struct {
	uid, gid uint32
	err      error // nothing is known of it
}

// check returns why a peer is not allowed.
func (l *AllowList) check(p peer) error {
	switch {
	case l.open():
		return nil
	case p.err != nil:
		return fmt.Errorf("%w: %w", errNoCredentials, p.err)
	case slices.Contains(l.UIDs, p.uid), slices.Contains(l.GIDs, p.gid):
		return nil
	}
	return &notAllowedError{p, l.Setting}
}

// notAllowedError says who was not on which list.
type notAllowedError struct {
	peer
	setting string
}

func (e *notAllowedError) Error() string {
	return fmt.Sprintf("socket: user %d with group %d is not allowed: add it to %s", e.uid, e.gid, e.setting)
}

// forbidden is what a refused peer is told. Why credentials could not be read is for the log.
func forbidden(err error) *api.Error {
	message := errNoCredentials.Error()
	var not *notAllowedError
	if errors.As(err, &not) {
		message = not.Error()
	}
	return &api.Error{Code: api.CodeForbidden, Message: message}
}

// peerOf reads the other end of a connection once, when somebody asks.
func peerOf(c net.Conn) func() peer {
	return sync.OnceValue(func() peer {
		uid, gid, err := credentials(c)
		return peer{uid, gid, err}
	})
}

// may refuses the request when its peer is on none of the lists.
func (x *exchange) may(lists ...AllowList) error {
	var refusal error
	for i := range lists {
		if lists[i].open() {
			return nil
		}
		err := lists[i].check(x.conn().peer())
		if err == nil {
			return nil
		}
		refusal = err
	}
	if refusal == nil {
		return nil
	}
	x.log.Debug("a request was refused", "path", x.r.URL.Path, "error", refusal)
	return forbidden(refusal)
}
