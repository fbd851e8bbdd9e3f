package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/config"
)

const (
	// usualMaxPayload is the embedded server's largest message, headers included, unless a queue allows larger payloads.
	usualMaxPayload = 8 << 20
	// headerRoom is for the headers of a message with the largest payload.
	headerRoom = 64 << 10
)

// Server is a JetStream server inside the agent's process. It is safe for several goroutines.
type Server struct {
	ns   *server.Server
	lock *os.File
}

// Start starts a server, and returns when it takes connections: within 30 seconds, or it is an error. maxPayload is the largest
// payload that a queue allows, in bytes; the server takes 8 MiB, and more if that is more. The store folder is made if need be,
// and locked, so that two servers never write to one store.
func Start(cfg config.Embedded, maxPayload int64, log hclog.Logger) (*Server, error) {
	lock, err := lockStore(cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	largest := int32(max(usualMaxPayload, maxPayload+headerRoom))
	opts := &server.Options{
		ServerName:   "fairlead-embedded",
		JetStream:    true,
		StoreDir:     cfg.StoreDir,
		DontListen:   cfg.Listen == "",
		NoSigs:       true,
		MaxPayload:   largest,
		MaxPending:   max(server.MAX_PENDING_SIZE, 2*int64(largest)),
		SyncInterval: cfg.SyncInterval,
		SyncAlways:   cfg.SyncAlways,
	}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			lock.Close()
			return nil, fmt.Errorf("broker: embedded listen address %q: %w", cfg.Listen, err)
		}
		if opts.Port, err = strconv.Atoi(port); err != nil {
			lock.Close()
			return nil, fmt.Errorf("broker: embedded listen address %q: the port must be a number", cfg.Listen)
		}
		if opts.Port == 0 {
			opts.Port = server.RANDOM_PORT
		}
		opts.Host = host
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("broker: embedded server: %w", err)
	}
	ns.SetLoggerV2(serverLog{log}, false, false, false)
	s := &Server{ns: ns, lock: lock}
	ns.Start()
	if !ns.ReadyForConnections(30 * time.Second) {
		s.Stop()
		return nil, errors.New("broker: embedded server did not start within 30s; see its log lines for the reason (a listen address in use, a damaged store)")
	}
	return s, nil
}

// URL is the address that other processes can use, or "" when the server does not listen.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Stop shuts the server down and waits for it. It can be called twice.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	s.lock.Close()
}

// lockStore makes the store folder and takes an advisory lock in it, which the kernel drops when the process ends.
func lockStore(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("broker: embedded store: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "fairlead.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("broker: embedded store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("broker: embedded store %s is in use by another process; give this agent its own store_dir, or let it connect by url", dir)
	}
	return f, nil
}

// serverLog passes the server's log to ours, one level quieter: a start-up banner is no news to an operator.
type serverLog struct{ log hclog.Logger }

func (l serverLog) Noticef(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l serverLog) Debugf(f string, v ...any)  { l.log.Trace(fmt.Sprintf(f, v...)) }
func (l serverLog) Tracef(f string, v ...any)  { l.log.Trace(fmt.Sprintf(f, v...)) }
func (l serverLog) Warnf(f string, v ...any)   { l.log.Warn(fmt.Sprintf(f, v...)) }
func (l serverLog) Errorf(f string, v ...any)  { l.log.Error(fmt.Sprintf(f, v...)) }
func (l serverLog) Fatalf(f string, v ...any)  { l.log.Error(fmt.Sprintf(f, v...)) }
