package integration

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A natsServer is a standalone server with JetStream on loopback.
type natsServer struct {
	*process
	t    *testing.T
	port int
	dir  string
	url  string

	flags  []string      // besides port and store
	auth   []nats.Option // of the tests' own connections
	binary string        // another nats-server; "" is the one of go.mod
	env    []string      // NAME=value, beside the test's own
}

// startNATS runs a server and waits until JetStream answers.
func startNATS(t *testing.T) *natsServer {
	t.Helper()
	return startNATSWith(t, "")
}

// startNATSWith runs a server with lines of configuration, and tells how to sign in to it if they ask for that.
func startNATSWith(t *testing.T, lines string, auth ...nats.Option) *natsServer {
	t.Helper()
	s := &natsServer{t: t, port: freePort(t), dir: folder(t), auth: auth}
	if lines != "" {
		file := filepath.Join(folder(t), "nats.conf")
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		s.flags = []string{"-c", file}
	}
	s.url = fmt.Sprintf("nats://127.0.0.1:%d", s.port)
	s.start()
	return s
}

// nextPort is where freePort looks next. It begins at another place in each process.
var nextPort atomic.Int64

func init() { nextPort.Store(int64(os.Getpid()) * 61) }

// freePort finds a port that stays the same when the server is started again. It gives none twice, and only such as the
// system does not give to connections: the one who gets it may listen on it later.
func freePort(t *testing.T) int {
	t.Helper()
	const first, count = 12_000, 20_000 // below Linux's range for connections, which begins at 32768
	for range 1000 {
		port := first + int(nextPort.Add(1)%count)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}

// start runs the server, again after a kill, on the same port and store.
func (s *natsServer) start() {
	s.t.Helper()
	s.launch()
	s.awaitJetStream()
}

// launch runs the server and does not wait.
func (s *natsServer) launch() {
	s.t.Helper()
	s.process = start(s.t, "nats-server", exec.Command(cmp.Or(s.binary, natsBinary),
		append(s.flags, "-js", "-sd", s.dir, "-a", "127.0.0.1", "-p", strconv.Itoa(s.port))...), s.env...)
}

// awaitJetStream waits until the server answers JetStream requests.
func (s *natsServer) awaitJetStream() {
	s.t.Helper()
	nc := s.connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "JetStream answers", patience, func() bool {
		_, err := js.AccountInfo(s.t.Context())
		return err == nil
	})
}

// connect returns a plain NATS client, as a publisher without an agent has.
func (s *natsServer) connect() *nats.Conn {
	s.t.Helper()
	var nc *nats.Conn
	eventually(s.t, "nats-server accepts connections", patience, func() (ok bool) {
		var err error
		nc, err = nats.Connect(s.url, append(s.auth, nats.Timeout(time.Second))...)
		return err == nil
	})
	s.t.Cleanup(nc.Close)
	return nc
}

// publisher publishes as a plain NATS client does, and waits for the server's word.
func (s *natsServer) publisher() func(subject, data string, headers ...string) {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	return func(subject, data string, headers ...string) {
		s.t.Helper()
		m := &nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{}}
		for i := 0; i+1 < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		if _, err := js.PublishMsg(s.t.Context(), m); err != nil {
			s.t.Fatalf("publish on %q: %v", subject, err)
		}
	}
}

// flood publishes n messages quickly; subject and data are made from a number.
func (s *natsServer) flood(n int, subject, data func(i int) string) {
	s.t.Helper()
	js, err := jetstream.New(s.connect(), jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		s.t.Fatal(err)
	}
	futures := make([]jetstream.PubAckFuture, n)
	for i := range n {
		if futures[i], err = js.PublishAsync(subject(i), []byte(data(i)), jetstream.WithStallWait(time.Minute)); err != nil {
			s.t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(2 * time.Minute):
		s.t.Fatal("the server did not confirm all within two minutes")
	}
	for i, f := range futures {
		select {
		case err := <-f.Err():
			s.t.Fatalf("message %d was not stored: %v", i, err)
		default:
		}
	}
}

// subjects lists a stream's subjects that hold messages.
func (s *natsServer) subjects(stream string) []string {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := st.Info(s.t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(info.State.Subjects))
}
