package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartServer starts a JetStream server in this process, with its files in dir, and returns its address. It listens on the
// loopback, because the bare loop and the agents are to have the same way to it.
func StartServer(dir string) (url string, stop func(), err error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "fairlead-bench", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, fmt.Errorf("bench: server: %w", err)
	}
	s.Start()
	stop = func() { s.Shutdown(); s.WaitForShutdown() }
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return "", nil, errors.New("bench: the server did not start within 10s")
	}
	return s.ClientURL(), stop, nil
}
