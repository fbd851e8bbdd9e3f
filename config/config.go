package config

import (
	"io/fs"
	"net/url"
	"time"
)

// Config is one agent's whole configuration, defaults filled in and checked.
// It is a value like any other: reading it from several goroutines is safe as
// long as nobody writes to it.
type Config struct {
	Agent        Agent
	NATS         NATS
	Listen       Listen
	Coordination Coordination
	Log          Log
	Metrics      Metrics
	Readiness    Readiness
	Queues       []Queue   // in file order; at least one
	Capsules     []Capsule // in file order; may be empty for an agent that only publishes
}

// Agent is the agent's own conduct.
type Agent struct {
	// ID names the agent among its peers. Load fills an absent one with the
	// host's name and a random suffix; Parse leaves it empty.
	ID string
	// DrainTimeout is how long apps may settle after the stop signal; 0
	// returns everything at once. Defaults to 30 seconds.
	DrainTimeout time.Duration
	// PollInterval is the pause between two sweeps that look for work no
	// wake-up told of. Defaults to 250 milliseconds.
	PollInterval time.Duration
}

// NATS says where the messages are stored. Exactly one of URLs and Embedded
// is set, and at most one way to sign in.
type NATS struct {
	URLs         []string  // servers of one cluster
	Embedded     *Embedded // a JetStream server inside the agent
	Prefix       string    // of subjects and, in upper case, of streams; defaults to "fl"
	Creds        string    // path of a credentials file
	NKey         string    // path of an NKey seed file
	User         string    // goes with PasswordFile
	PasswordFile string
	TokenFile    string
	TLS          *TLS // nil: as the URL's scheme says, with the system's roots
}

// Embedded is a JetStream server that runs inside the agent.
type Embedded struct {
	StoreDir string // folder of its files; defaults to ./data
	Listen   string // host:port for other NATS clients; "" for none
	// SyncInterval is how much acknowledged work a power cut may take.
	// Defaults to 2 minutes. It is 0 when SyncAlways is set.
	SyncInterval time.Duration
	SyncAlways   bool // every write reaches the disk before its acknowledgement
}

// Redacted are the URLs as they may be shown: without the passwords and tokens that may be in them.
func (n *NATS) Redacted() []string {
	list := make([]string, len(n.URLs))
	for i, s := range n.URLs {
		list[i] = RedactURL(s)
	}
	return list
}

// RedactURL returns a server's URL without who signs in to it: a user without a password is a token.
func RedactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "an address that cannot be read"
	}
	if u.User != nil {
		u.User = url.User("xxxxx")
	}
	return u.String()
}

// TLS names the PEM files of a TLS connection; empty ones are not used.
type TLS struct{ CA, Cert, Key string }

// Listen says where the agent is reached.
type Listen struct {
	Socket        string      // of the app; defaults to /run/fairlead/agent.sock
	Mode          fs.FileMode // permission bits of Socket; defaults to 0660
	AdminSocket   string      // defaults to admin.sock in the folder of Socket
	ProbesHTTP    string      // host:port; "" switches it off; defaults to 127.0.0.1:9464
	DashboardHTTP string      // host:port; "" switches it off; defaults to 127.0.0.1:9465
	AllowUIDs     []uint32    // who may connect to Socket; both empty: the file mode decides
	AllowGIDs     []uint32
	PublishUIDs   []uint32 // of those, who may publish; both empty: all of them
	PublishGIDs   []uint32
}

// Coordination is how agents find and trust each other. All agents of a
// bucket want the same values.
type Coordination struct {
	Bucket            string        // defaults to "fairlead", with another prefix than "fl" to "fairlead-<prefix>"
	HeartbeatInterval time.Duration // defaults to 2 seconds
	StaleAfter        time.Duration // silence after which a peer counts as gone; defaults to 10 seconds
	LeaseTTL          time.Duration // defaults to 10 seconds, to 15 seconds on several replicas
	Replicas          int           // of the bucket: the largest of the queues; not a setting
}

// Log is how the agent logs.
type Log struct {
	Level  string // trace, debug, info, warn, error; defaults to info
	Format string // json or text; defaults to json
}

// Metrics is what the metrics show.
type Metrics struct {
	TopKeys int // how many tenant keys may appear in metrics; 0: none
}

// Readiness is what makes the agent ready.
type Readiness struct {
	Broker bool // not ready while NATS is away; defaults to true
}

// Capsule is a named set of queues that an app works through.
type Capsule struct {
	Name             string
	Queues           []string      // in strict order; at least one, each once
	Concurrency      int           // messages in flight at most; defaults to 10
	Lease            time.Duration // time an app has to settle a delivery; defaults to 60 seconds
	ConsumerPriority int           // capsules with a lower one stand by; defaults to 0
	// SingleActiveConsumer is as written on the capsule. What counts is the
	// queue's own: Parse sets it on each queue of such a capsule.
	SingleActiveConsumer bool
	AllowUIDs            []uint32 // who may pull, of those that may connect; both empty: all of them
	AllowGIDs            []uint32
}
