package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/credentials"
	"github.com/fairlead/fairlead/agent/broker/embedded"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/agent/broker/seldom"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// writeTries is how often a write whose outcome is unknown is repeated. Repeating is safe: deletes are idempotent, and publishes
// carry an id.
const writeTries = 3

// Options are what a client needs to know.
type Options struct {
	NATS   config.NATS
	Bucket string // the coordination bucket's name
	// MaxPayload is the largest payload that a queue allows, in bytes, for an embedded server.
	MaxPayload int64
	// Queues are those of the file, to say what a permission is for that NATS refuses.
	Queues  []config.Queue
	Agent   string // this agent's id, shown in NATS monitoring
	Logger  hclog.Logger
	Metrics *Metrics // nil: counted, and thrown away
}

// Client is one agent's connection to NATS: a server elsewhere, or the one embedded in its own process. It reconnects for
// ever. It is safe for several goroutines.
type Client struct {
	names    names.Names
	log      hclog.Logger
	seldom   *seldom.Log // for what can happen with every message
	metrics  *Metrics
	server   *embedded.Server // nil unless embedded
	wire     *wire.Wire
	bucket   *bucket.Bucket
	attempts *attempts
	queues   []config.Queue
	agent    string        // this agent's id
	boot     string        // unique to this run of this agent
	ready    chan struct{} // closed when init is done: callbacks of the connection wait for it
	serial   atomic.Uint64
	scans    scans
	holds    holds
	rings    rings
	spared   sparings
	create   chan struct{} // a slot for each lane that may be in the making
	lostAt   atomic.Int64  // when a lane of a dead server was found last, in Unix nanoseconds

	// Live is asked whether a message that was just taken is already in this agent's hands, because its lane was made
	// again. If so it takes over the message's handle, and the message is not handed out twice. It is set before the first
	// Feed is made and does not change.
	Live func(*Message) bool

	// Definition returns the definition of a queue that is in force. It is set before the first Feed is made and does not
	// change. Without it no message is given up.
	Definition func(queue string) (config.Queue, bool)

	// Followed returns the definition of a queue through whose lanes its messages are taken: the one in force, or, for a moment
	// after that has changed, the one before. It is set before the first publish and does not change. Without it that is
	// what publishers give.
	Followed func(queue string) (config.Queue, bool)

	mu        sync.Mutex
	listeners []*listener
	lastErr   string
}

// Connect starts the embedded server if there is one, and a connection that looks for NATS until it is closed. It returns
// before NATS was found, unless ctx allows for waiting: it waits until ctx ends, at most, and then returns a working
// client all the same. Errors are of the settings: unreadable credentials ([credentials.ErrSecret]), a store in use.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c := &Client{
		names:   names.New(o.NATS.Prefix, o.Bucket),
		log:     o.Logger,
		seldom:  seldom.New(o.Logger),
		metrics: o.Metrics,
		queues:  o.Queues,
		agent:   o.Agent,
		boot:    newBoot(),
		ready:   make(chan struct{}),
		create:  make(chan struct{}, 32),
	}
	if c.metrics == nil {
		c.metrics = new(Metrics)
	}
	up := make(chan struct{}, 1)
	opts, err := c.dialOptions(o, up)
	if err != nil {
		return nil, err
	}
	url := strings.Join(o.NATS.URLs, ",")
	if o.NATS.Embedded != nil {
		if c.server, err = embedded.Start(*o.NATS.Embedded, o.MaxPayload, o.Logger.Named("nats")); err != nil {
			return nil, err
		}
		url = ""
		opts = append(opts, nats.InProcessServer(c.server))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		c.stopServer()
		return nil, fmt.Errorf("broker: connect: %w", err)
	}
	if err := c.init(nc); err != nil {
		nc.Close()
		c.stopServer()
		return nil, err
	}
	if !nc.IsConnected() {
		select {
		case <-up:
		case <-ctx.Done():
		}
	}
	return c, nil
}

func (c *Client) init(nc *nats.Conn) (err error) {
	defer close(c.ready)
	c.wire, err = wire.New(nc, func(dir rights.Direction, subject string) rights.Permission {
		return rights.Wanted(c.names, c.queues, dir, subject)
	})
	if err != nil {
		return err
	}
	c.bucket = bucket.New(c.wire, c.names.Bucket(), c.log)
	c.Notify(c.bucket.Connection)
	c.attempts = newAttempts(c)
	c.bucket.Subscribe(attemptsPrefix, c.attempts.apply)
	c.rings.start(c)
	return nil
}

func newBoot() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// dialOptions translates the settings of the file for nats.go.
func (c *Client) dialOptions(o Options, up chan<- struct{}) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("fairlead " + o.Agent),
		nats.CustomInboxPrefix(c.names.InboxPrefix()),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectBufSize(-1), // a write while NATS is away is told at once, never kept for later
		nats.CustomReconnectDelay(wire.ReconnectDelay),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second),
		nats.IgnoreAuthErrorAbort(), // credentials can be renewed underneath
		nats.ConnectHandler(func(nc *nats.Conn) {
			select {
			case up <- struct{}{}:
			default:
			}
			c.changed(nc, true)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.changed(nc, true) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) { c.setErr(err); c.changed(nc, false) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if !errors.Is(err, nats.ErrNoServers) { // says less than the error of the last server that was tried
				c.setErr(err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			<-c.ready
			if c.wire == nil {
				return // Connect failed
			}
			if refused := c.wire.Deny(err); refused != nil {
				c.setErr(refused)
				c.seldom.Warn(refused.Sentence())
				return
			}
			c.setErr(err)
			if sub != nil {
				c.seldom.Warn("NATS reported an error: "+err.Error(), "subject", sub.Subject)
				return
			}
			c.seldom.Warn("NATS reported an error: " + err.Error())
		}),
	}
	signIn, err := credentials.Options(o.NATS)
	if err != nil {
		return nil, err
	}
	return append(opts, signIn...), nil
}

func (c *Client) setErr(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	c.lastErr = err.Error()
	c.mu.Unlock()
}

// Notify calls f whenever the connection comes or goes. f must not block.
func (c *Client) Notify(f func(up bool)) { c.listen(f) }

type listener struct{ f func(up bool) }

// listen is Notify until stop is called.
func (c *Client) listen(f func(up bool)) (stop func()) {
	l := &listener{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.listeners = slices.DeleteFunc(slices.Clone(c.listeners), func(other *listener) bool { return other == l })
	}
}

// changed runs in the connection's own callback goroutine, which can be faster than Connect.
func (c *Client) changed(nc *nats.Conn, up bool) {
	<-c.ready
	if c.attempts == nil {
		return // Connect failed
	}
	if up {
		c.log.Info("connected to NATS", "server", nc.ConnectedServerName(), "version", nc.ConnectedServerVersion())
		c.attempts.flush()
	} else {
		if !nc.IsClosed() {
			c.log.Warn("the connection to NATS is gone; trying again until it is back")
		}
		c.wire.Disconnected()
	}
	c.mu.Lock()
	listeners := c.listeners
	c.mu.Unlock()
	for _, l := range listeners {
		l.f(up)
	}
}

// Connected tells whether the connection stands now.
func (c *Client) Connected() bool { return c.wire.Connected() }

// Connection describes the connection.
type Connection struct {
	Connected  bool
	URL        string
	Server     string
	Embedded   bool
	Reconnects uint64
	LastError  string
}

// Connection describes the connection as it is now.
func (c *Client) Connection() Connection {
	s := Connection{Connected: c.Connected(), Embedded: c.server != nil, Reconnects: c.wire.NC.Stats().Reconnects}
	if s.Connected {
		s.Server = strings.TrimSpace(c.wire.NC.ConnectedServerName() + " " + c.wire.NC.ConnectedServerVersion())
		s.URL = config.RedactURL(c.wire.NC.ConnectedUrl())
	}
	if c.server != nil {
		s.URL = c.server.URL()
	}
	c.mu.Lock()
	s.LastError = c.lastErr
	c.mu.Unlock()
	return s
}

// MaxPayload is the largest message, headers included, that the server takes, in bytes.
func (c *Client) MaxPayload() int64 {
	if n := c.wire.NC.MaxPayload(); n > 0 {
		return n
	}
	return math.MaxInt64
}

// Missing describes the permissions that the server has refused this agent within the last minute, one for each thing that
// it needs them for.
func (c *Client) Missing() []string { return c.wire.Missing() }

// JetStream is for the parts of the agent that keep something of their own in NATS.
func (c *Client) JetStream() jetstream.JetStream { return c.wire.JS }

// Conn is the connection itself.
func (c *Client) Conn() *nats.Conn { return c.wire.NC }

// Bucket is the coordination bucket. It must be started once the bucket exists.
func (c *Client) Bucket() *bucket.Bucket { return c.bucket }

// Boot is unique to this run of this agent.
func (c *Client) Boot() string { return c.boot }

// Names are the names of what is kept in NATS.
func (c *Client) Names() names.Names { return c.names }

// Close ends the connection and stops the embedded server. What is in flight is given up. It can be called twice.
func (c *Client) Close() {
	c.rings.close()
	c.bucket.Stop()
	c.wire.Close()
	// What was published without waiting (returned messages) must leave before the connection does.
	if c.wire.NC.IsConnected() {
		_ = c.wire.NC.FlushTimeout(2 * time.Second)
	}
	c.wire.NC.Close()
	c.stopServer()
}

func (c *Client) stopServer() {
	if c.server != nil {
		c.server.Stop()
	}
}
