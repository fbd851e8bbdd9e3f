package dashboard

import (
	"net"
	"net/netip"
	"strings"
)

// hosts are the names that a browser may have asked for. A page of somebody else can make its own name lead to a loopback
// address, and would be of the same origin as what answers there; but the name stays its own, and browsers send it along.
type hosts struct {
	configured string // of the address in the file, in lower case; "" is none
	anyAddress bool   // the file says all addresses: then each one may be asked for, but no name
}

func hostsOf(address string) hosts {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return hosts{}
	}
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && ip.IsUnspecified() {
		return hosts{anyAddress: true}
	}
	return hosts{configured: plain(host)}
}

// allows tells whether a request's Host is one of them. Its port says nothing: it differs behind a port-forward.
func (h hosts) allows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = plain(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	switch {
	case host == "":
		return false
	case host == h.configured, host == "localhost", strings.HasSuffix(host, ".localhost"):
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || h.anyAddress)
}

func plain(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }
