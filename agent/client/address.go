package client

import (
	"fmt"
	"strings"
)

// DefaultSocket is where an agent listens when nothing else was said.
const DefaultSocket = "/run/fairlead/agent.sock"

// maxSocketPath is what the kernel takes: sun_path has 108 bytes, the last of them a zero.
const maxSocketPath = 107

// ParseSocket returns the path in an address as FAIRLEAD_SOCKET has it: unix:///path, unix:path or just a path.
// The error is ErrNotSocket.
func ParseSocket(address string) (string, error) {
	path := address
	if rest, ok := strings.CutPrefix(address, "unix:"); ok {
		path = rest
		if host, ok := strings.CutPrefix(rest, "//"); ok {
			if !strings.HasPrefix(host, "/") {
				return "", fmt.Errorf("client: %q: %w: write unix:///path, with three slashes", address, ErrNotSocket)
			}
			path = host
		}
	} else if scheme, _, ok := strings.Cut(address, "://"); ok {
		return "", fmt.Errorf("client: %q: %w: %s:// is not supported, write unix:///path", address, ErrNotSocket, scheme)
	}
	switch {
	case path == "":
		return "", fmt.Errorf("client: %q: %w: it has no path", address, ErrNotSocket)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("client: %q: %w: it has a NUL byte", address, ErrNotSocket)
	case len(path) > maxSocketPath:
		return "", fmt.Errorf("client: %q: %w: its path has %d bytes, and %d is the most", address, ErrNotSocket, len(path), maxSocketPath)
	}
	return path, nil
}
