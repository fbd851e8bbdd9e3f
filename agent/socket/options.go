package socket

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/config"
)

// Publisher stores messages. It is safe for several goroutines.
type Publisher interface {
	// Publish stores one message and blocks until JetStream has confirmed it. Errors that clients can act on are
	// *api.Error.
	Publish(ctx context.Context, queue string, p broker.Publication) (broker.Receipt, error)
	// PublishAsync is Publish without waiting: messages are stored in the order of the calls. done is called once, from any
	// goroutine, and does not block.
	PublishAsync(queue string, p broker.Publication, done func(broker.Receipt, error))
	// Definition returns the definition in force.
	Definition(queue string) (config.Queue, bool)
}

// Capsules hands out messages. It is safe for several goroutines.
type Capsules interface {
	// Pull blocks until there is at least one message, the request's wait is over or the capsule drains (no messages, no
	// error), or ctx ends. Messages that it returns are the caller's, whatever became of ctx. Errors that clients can act
	// on are *api.Error.
	Pull(ctx context.Context, capsule string, r dispatch.Request) (msgs []*broker.Message, owner delivery.Owner, err error)
}

// Reader answers the reads. It is safe for several goroutines. Errors that clients can act on are *api.Error.
type Reader interface {
	Status(ctx context.Context) (*api.AgentStatus, error)
	Queues(ctx context.Context) (*api.QueueList, error)
	// Queue returns one queue with at most this many keys, the largest first.
	Queue(ctx context.Context, name string, keys int) (*api.QueueStatus, error)
	// Peek returns up to max waiting messages; nil means every level, and every key.
	Peek(ctx context.Context, queue string, max int, priority *int, key *string) (*api.PeekList, error)
	// Overview returns the last one of all that the agent has to show, and blocks until there is one.
	Overview(ctx context.Context) (*api.Overview, error)
}

// Control is what operators can do to the agent.
type Control interface {
	// Drain starts draining, or joins a drain that was started, and blocks until it is over or ctx ends.
	Drain(ctx context.Context) error
}

// Face is what a server answers.
type Face int

// The two faces.
const (
	App   Face = iota // the socket of apps
	Admin             // the socket of operators
)

// Options are what a server works with. Its fields must not be changed after New.
type Options struct {
	Face      Face
	Publisher Publisher      // App, and to read level names
	Capsules  Capsules       // App
	Book      *delivery.Book // App
	Reader    Reader
	Control   Control  // Admin
	Controls  Controls // Admin
	Delays    Delays   // Admin
	// DeadLetters are the messages that were given up. Admin.
	DeadLetters DeadLetters
	// Lease returns the default lease of a capsule's deliveries, and whether there is such a capsule. App.
	Lease func(capsule string) (time.Duration, bool)
	// Draining is closed when the agent begins to drain. Nil: it never does.
	Draining <-chan struct{}
	// Allow is who is answered.
	Allow AllowList
	// Publishers are those who may publish. App.
	Publishers AllowList
	// Pullers returns who may pull from a capsule. Nil: everybody. App.
	Pullers func(capsule string) AllowList
	// Lookers returns lists of which one has to have whoever looks at the messages of a queue. None, or nil: everybody.
	Lookers func(queue string) []AllowList
	Limits  Limits
	Logger  hclog.Logger // nil: none
}

// validate returns all that is missing.
func (o *Options) validate() error {
	var errs []error
	need := func(have bool, field string) {
		if !have {
			errs = append(errs, errors.New("socket: options: "+field+" is missing"))
		}
	}
	need(o.Face == App || o.Face == Admin, "a known Face")
	need(o.Publisher != nil, "Publisher")
	need(o.Reader != nil, "Reader")
	if o.Face == App {
		need(o.Capsules != nil, "Capsules")
		need(o.Book != nil, "Book")
		need(o.Lease != nil, "Lease")
	} else {
		need(o.Control != nil, "Control")
		need(o.Controls != nil, "Controls")
		need(o.Delays != nil, "Delays")
		need(o.DeadLetters != nil, "DeadLetters")
	}
	return errors.Join(errs...)
}

// Limits bound what clients can take. The zero value of a field means its default.
type Limits struct {
	Connections   int           // open at the same time; each has at most one request in work. Defaults to 1024.
	HeaderBytes   int           // of a request's head. Defaults to 32 KiB.
	BodyBytes     int64         // of one published payload, when the queue has no lower limit. Defaults to 64 MiB.
	AllBodyBytes  int64         // of all bodies in memory. Defaults to 256 MiB.
	SettleBytes   int64         // of a list of settlements. Defaults to 4 MiB.
	SettleTimeout time.Duration // for a list of settlements; what is due then is answered unavailable. Defaults to 30 seconds.
	BatchInFlight int           // publishes of one batch under way. Defaults to 256.
	BatchBytes    int64         // of their lines. Defaults to 8 MiB; one line is always let through.
	BatchAnswers  int           // bytes of a batch's answer that its client has not read. Defaults to 4 MiB.
	HeaderTimeout time.Duration // for a request's head. Defaults to 10 seconds.
	IdleTimeout   time.Duration // between two requests, unless messages that came over the connection are not settled. Defaults to 5 minutes.
	BodyTimeout   time.Duration // without a byte of a body. Defaults to 30 seconds.
	WriteTimeout  time.Duration // without a byte of an answer taken. Defaults to 30 seconds.
	PingInterval  time.Duration // of sessions. Defaults to 15 seconds.
}

func (l Limits) withDefaults() Limits {
	or(&l.Connections, 1024)
	or(&l.HeaderBytes, 32<<10)
	or(&l.BodyBytes, 64<<20)
	or(&l.AllBodyBytes, 256<<20)
	or(&l.SettleBytes, 4<<20)
	or(&l.SettleTimeout, 30*time.Second)
	or(&l.BatchInFlight, 256)
	or(&l.BatchBytes, 8<<20)
	or(&l.BatchAnswers, 4<<20)
	or(&l.HeaderTimeout, 10*time.Second)
	or(&l.IdleTimeout, 5*time.Minute)
	or(&l.BodyTimeout, 30*time.Second)
	or(&l.WriteTimeout, 30*time.Second)
	or(&l.PingInterval, 15*time.Second)
	return l
}

func or[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
