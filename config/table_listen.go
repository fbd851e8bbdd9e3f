package config

import (
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// longestSocket is what fits into the address of a Unix socket on Linux.
const longestSocket = 107

// DefaultProbesHTTP is the address of probes and metrics of a file that does not name one.
const DefaultProbesHTTP = "127.0.0.1:9464"

// DefaultDashboardHTTP is the address of the dashboard of a file that does not name one.
const DefaultDashboardHTTP = "127.0.0.1:9465"

const (
	defaultSocket   = "/run/fairlead/agent.sock"
	adminSocketName = "admin.sock"
)

var (
	socketPath = text{what: "a path", verify: usableSocket}
	address    = text{what: "host:port", verify: usableAddress}
	ids        = list[uint32]{item: integer[uint32]{0, 1<<32 - 2}, high: 1000, ofWhat: "numbers"}
)

var listenTable = &record[Listen]{
	fields: []field[Listen]{
		propOr("socket", func(l *Listen) *string { return &l.Socket }, socketPath, defaultSocket,
			"The app's socket; at most 107 bytes."),
		propOr("mode", func(l *Listen) *fs.FileMode { return &l.Mode }, fileMode{}, 0o660,
			"Permission bits of socket, in octal."),
		prop("admin_socket", func(l *Listen) *string { return &l.AdminSocket }, socketPath,
			"The operators' socket, always of mode 0600. Default: admin.sock in the folder of socket."),
		propOr("probes_http", func(l *Listen) *string { return &l.ProbesHTTP }, address, DefaultProbesHTTP,
			"host:port of /livez, /readyz and /metrics. In pods :9464. Empty text switches it off."),
		propOr("dashboard_http", func(l *Listen) *string { return &l.DashboardHTTP }, address, DefaultDashboardHTTP,
			"host:port of the dashboard. Empty text switches it off."),
		prop("allow_uids", func(l *Listen) *[]uint32 { return &l.AllowUIDs }, ids,
			"Users who may connect to socket. With allow_gids empty too, mode decides."),
		prop("allow_gids", func(l *Listen) *[]uint32 { return &l.AllowGIDs }, ids,
			"Groups whose members may connect to socket."),
		prop("publish_uids", func(l *Listen) *[]uint32 { return &l.PublishUIDs }, ids,
			"Of those who may connect, users who may publish. With publish_gids empty too, all of them."),
		prop("publish_gids", func(l *Listen) *[]uint32 { return &l.PublishGIDs }, ids,
			"Of those who may connect, groups whose members may publish."),
	},
}

// finishListen is called for the file as a whole: an absent section, too, has
// an admin socket.
func finishListen(d *decoder, at string, l *Listen) {
	socket, admin := join(at, "socket"), join(at, "admin_socket")
	if !d.isSet(admin) {
		l.AdminSocket = filepath.Join(filepath.Dir(l.Socket), adminSocketName)
	}
	if d.sound(socket, admin) {
		if problem := usableSocket(l.AdminSocket); problem != "" && !d.isSet(admin) {
			d.report(admin, "the default, %s, %s", adminSocketName+" in the folder of socket", problem)
		}
		if filepath.Clean(l.Socket) == filepath.Clean(l.AdminSocket) {
			if d.isSet(admin) {
				d.report(admin, "socket and admin_socket are the same path: write two")
			} else {
				d.report(socket, "is the path of the default admin_socket: write that too, or another name here")
			}
		}
	}
	probes, dashboard := join(at, "probes_http"), join(at, "dashboard_http")
	if l.ProbesHTTP != "" && l.ProbesHTTP == l.DashboardHTTP {
		d.report(nearest(d, dashboard, probes), "probes_http and dashboard_http are the same address: write two")
	}
}

func usableSocket(s string) string {
	switch {
	case s == "":
		return "is empty: write a path"
	case len(s) > longestSocket:
		return fmt.Sprintf("has %d bytes, and a socket's path may have %d: use a shorter folder", len(s), longestSocket)
	case strings.HasPrefix(s, "@"):
		return "is an abstract socket, which has no owner and no mode: write a path"
	case strings.HasSuffix(s, "/"):
		return "names a folder: write the path of the socket file in it"
	}
	return ""
}

func usableAddress(s string) string {
	if s == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Sprintf("%q is not host:port: write 127.0.0.1:PORT, or :PORT for all interfaces", shorten(s))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Sprintf("%q has no port number from 0 to 65535", shorten(s))
	}
	return ""
}
