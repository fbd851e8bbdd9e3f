package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

var (
	// ErrNoAgent is returned when nobody listens on the socket. Nothing was sent.
	ErrNoAgent = errors.New("no agent answers here")

	// ErrConnectionLost is returned when the agent went away, or said something that is not its protocol, before its
	// answer was complete. What was asked may or may not have been done.
	ErrConnectionLost = errors.New("the agent went away before it answered")

	// ErrAnswerTooLarge is returned when an answer is over MaxAnswer. Deliveries of such an answer stay with this client
	// until their leases or its session end; ask for fewer at a time.
	ErrAnswerTooLarge = errors.New("the answer is too large")

	// ErrNotSocket is returned by ParseSocket for an address that cannot name a Unix socket.
	ErrNotSocket = errors.New("not the address of a Unix socket")
)

// transportError translates what the HTTP transport reports. The socket's path is named, because the usual cause is
// that the wrong one was asked.
func (c *Client) transportError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("client: %s: %w", c.socket, cause)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("client: %s: %w", c.socket, err)
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return fmt.Errorf("client: %s: %w (%w)", c.socket, ErrConnectionLost, err)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("client: %s: this user may not open the socket (of the app's, listen.mode in the agent's file says who may; the admin socket is for the agent's own user): %w", c.socket, err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTSOCK),
		errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("client: %s: %w: start one (fairlead run --dev), or say where it is with --socket or FAIRLEAD_SOCKET", c.socket, ErrNoAgent)
	}
	return fmt.Errorf("client: %s: %w: %w", c.socket, ErrNoAgent, err)
}

// protocolError reports an answer that the agent should not have given.
func (c *Client) protocolError(format string, args ...any) error {
	return fmt.Errorf("client: %s: %w (%w)", c.socket, ErrConnectionLost, fmt.Errorf(format, args...))
}
