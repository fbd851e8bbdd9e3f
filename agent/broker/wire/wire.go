package wire

import (
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/rights"
)

const (
	// deletesInFlight bounds the JetStream API calls that this agent has under way: the server shares few workers and one
	// queue among all clients, and drops the whole queue when it overflows.
	deletesInFlight = 64
	// publishesInFlight bounds stored-but-not-confirmed publishes.
	publishesInFlight = 1024
	// AnswerWait is how long one try of a small request may take.
	AnswerWait = 2 * time.Second
	// slowest is the slowest link over which large messages get through, in bytes a second.
	slowest = 1 << 20
)

// Wait is how long one try of a request may take that carries a payload of so many bytes, or asks for one: a second, and one more
// for each MiB, but never less than [AnswerWait], which is that of all usual messages: when a server of a cluster dies, its
// requests are tried again after that time, and work goes on. What takes longer would never be done, however often it is tried.
func Wait(bytes int64) time.Duration {
	return max(AnswerWait, time.Second+time.Duration(float64(bytes)/slowest*float64(time.Second)))
}

// Wire is one agent's line to JetStream. Its exported fields do not change. It is safe for several goroutines.
type Wire struct {
	NC *nats.Conn
	JS jetstream.JetStream
	// Deletes is for requests to JetStream's API, of which deletes are most: 64 at a time.
	Deletes *Requester
	// Writes is for what is stored, and for acknowledgements that are confirmed: 1,024 at a time.
	Writes *Requester

	wanted func(rights.Direction, string) rights.Permission

	mu      sync.Mutex
	denials []denial            // what the server has refused this identity
	asked   map[*asked]struct{} // calls that end when they are refused
}

// New returns the line over a connection, which need not stand yet and stays the caller's. wanted says what is to be allowed for a
// subject that the server refuses; it is asked from the connection's callbacks.
func New(nc *nats.Conn, wanted func(rights.Direction, string) rights.Permission) (*Wire, error) {
	w := &Wire{NC: nc, wanted: wanted}
	var err error
	if w.JS, err = jetstream.New(nc); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	if w.Deletes, err = newRequester(nc, deletesInFlight, AnswerWait); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	if w.Writes, err = newRequester(nc, publishesInFlight, AnswerWait); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return w, nil
}

// Connected tells whether the connection stands now.
func (w *Wire) Connected() bool { return w.NC.IsConnected() }

// Disconnected gives up everything in flight: whether it was carried out is unknown. It is called when the connection is gone.
func (w *Wire) Disconnected() {
	w.Deletes.disconnected()
	w.Writes.disconnected()
}

// Close gives everything up and refuses what comes later. It can be called twice. The connection is the caller's to close.
func (w *Wire) Close() {
	w.Deletes.close()
	w.Writes.close()
}

// ReconnectDelay is the back-off between tries: 50 ms, doubled up to 1 s, with a quarter of jitter either way. Longer ones
// would be felt: nobody works on an ordered queue between the server's return and the first agent's.
func ReconnectDelay(try int) time.Duration {
	d := 50 * time.Millisecond << min(try, 7)
	d = min(d, time.Second)
	return d*3/4 + mathrand.N(d/2)
}
