package group

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/config"
)

// Config is what a group is made from.
type Config struct {
	Agent string // this agent's id
	Boot  string // unique to this run of the agent
	// Interval is the time between two heartbeats. Defaults to 2 seconds.
	Interval time.Duration
	// StaleAfter is how long a peer's record may stay unchanged before the peer counts as gone. Defaults to 5 intervals.
	StaleAfter  time.Duration
	Capsules    []Capsule
	Definitions []config.Queue // of this agent's file
	Logger      hclog.Logger   // defaults to none
}

// Capsule is one of this agent's capsules as others see it.
type Capsule struct {
	Name             string
	Queues           []string
	ConsumerPriority int
}

// Group is this agent's place among the others. All methods can be called from several goroutines.
type Group struct {
	bucket Bucket
	cfg    Config
	log    hclog.Logger
	decide func(situation) verdict

	wake     chan struct{} // written by whoever posts, read by the owner
	quit     chan struct{} // closed by Stop, read by the owner
	done     chan struct{} // closed by the owner when it has ended
	decided  chan struct{} // closed by the owner when the definitions in force are known for the first time
	gaveUp   chan struct{} // closed by the owner when another agent has this id
	conflict chan error    // written once at most by the owner
	view     atomic.Pointer[view]

	mu        sync.Mutex
	inbox     []func(*owner) // what the owner has to take in, in order
	started   bool
	stopped   bool
	ended     bool // the owner takes in nothing more
	listeners []func(Change)
	demand    map[string]bool // as last said, by capsule
	failing   map[string]bool // the same
	gaveUpErr error           // why gaveUp is closed
	lastErr   error           // why the bucket was not usable last time; nil: it is
	deaf      bool            // it has not been usable for longer than a lost write would explain
	stopErr   error           // how Stop ended; set before done is closed
	stopCtx   context.Context // bounds the farewell; set by the first Stop
}

// New makes a group. It does nothing before Start.
func New(b Bucket, cfg Config) *Group {
	if cfg.Interval <= 0 {
		cfg.Interval = 2 * time.Second
	}
	if cfg.StaleAfter <= 0 {
		cfg.StaleAfter = 5 * cfg.Interval
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	g := &Group{
		bucket: b, cfg: cfg, log: cfg.Logger, decide: decide,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		decided: make(chan struct{}), gaveUp: make(chan struct{}), conflict: make(chan error, 1), demand: map[string]bool{}, failing: map[string]bool{},
	}
	v := &view{definitions: cfg.Definitions}
	for _, q := range cfg.Definitions {
		v.hashes = append(v.hashes, q.Hash())
	}
	g.view.Store(v)
	return g
}

// Start announces this agent and returns nil when it is known which definitions are in force. When ctx ends before, it
// returns an error that wraps [ErrUndecided] and says why: the group works all the same, and goes on deciding. When another
// agent turns out to have this one's id the error wraps [ErrDuplicateAgent], after Stop it is [ErrStopped].
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		return ErrStopped
	}
	if !g.started {
		g.started = true
		go newOwner(g).run()
	}
	g.mu.Unlock()
	var ended error
	select {
	case <-g.decided:
	case <-g.done:
		ended = ErrStopped
	case <-g.gaveUp:
	case <-ctx.Done():
		ended = g.undecided(ctx.Err())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gaveUpErr != nil {
		return g.gaveUpErr
	}
	return ended
}

func (g *Group) undecided(cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lastErr != nil {
		return fmt.Errorf("%w: %w: %w", ErrUndecided, cause, g.lastErr)
	}
	return fmt.Errorf("%w: %w", ErrUndecided, cause)
}

// Stop deletes this agent's heartbeats, so that the others act at once, and waits until all is done. It returns an error
// that wraps [ErrHeartbeatsLeft] when that was not possible before ctx ended. It can be called again, with the same
// answer, and without Start.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	if !g.stopped {
		g.stopped = true
		g.stopCtx = ctx
		close(g.quit)
		if !g.started {
			close(g.done)
		}
	}
	g.mu.Unlock()
	<-g.done
	return g.stopErr
}

// SetDemand says whether a capsule has work to ask for. Others are told at once, but not more often than ten times a
// second.
func (g *Group) SetDemand(capsule string, demand bool) { g.say(g.demand, capsule, demand) }

// SetFailing says whether a capsule's app dies again and again with what it gets. Others who are as badly off need not give way to
// it. Others are told as of demand.
func (g *Group) SetFailing(capsule string, failing bool) { g.say(g.failing, capsule, failing) }

// say notes what is so of a capsule in one of the maps that mu guards, and has others told.
func (g *Group) say(what map[string]bool, capsule string, so bool) {
	g.mu.Lock()
	same := what[capsule] == so
	what[capsule] = so
	g.mu.Unlock()
	if !same {
		g.post(func(o *owner) { o.demandChanged(time.Now()) })
	}
}

// Definition returns the definition of a queue that holds here now. Its slices and maps are shared: do not change them.
func (g *Group) Definition(queue string) (config.Queue, bool) { return g.view.Load().definition(queue) }

// Definitions returns the definitions that hold here now, in the order of this agent's file.
func (g *Group) Definitions() []config.Queue {
	return append([]config.Queue(nil), g.view.Load().definitions...)
}

// Relaid tells whether this agent has put its definition of a queue in force over one with another layout: others may be
// working through the former one's lanes at this moment.
func (g *Group) Relaid(queue string) bool { return g.view.Load().relaid[queue] }

// Peers returns the capsules of the other live agents, by agent and capsule.
func (g *Group) Peers() []Peer {
	v := g.view.Load()
	now := time.Now()
	peers := make([]Peer, len(v.peers))
	for i, p := range v.peers {
		peers[i] = p.Peer
		peers[i].Age = now.Sub(p.changed)
	}
	return peers
}

// Rivals counts who else works on a queue: the live capsules with demand that serve it, of other agents and of this one,
// but for the given one of this agent. It is cheap.
func (g *Group) Rivals(queue, capsule string) Rivals { return g.view.Load().rivals(queue, capsule) }

// Notify has f called after every change, when the new state can be read. It is called from one goroutine and must not
// block, nor call Stop.
func (g *Group) Notify(f func(Change)) {
	g.mu.Lock()
	g.listeners = append(g.listeners, f)
	g.mu.Unlock()
}

// Reload replaces the file's definitions and the capsules. It returns before that is known to others: Notify tells what
// comes of it. A changed definition holds once it is in force.
func (g *Group) Reload(defs []config.Queue, capsules []Capsule) {
	g.post(func(o *owner) { o.reload(defs, capsules) })
}

// Warnings says that the bucket cannot be used, and where the agents' files differ: a sentence per finding, the latter in
// the order of this agent's file.
func (g *Group) Warnings() []string {
	var list []string
	g.mu.Lock()
	if g.deaf && g.lastErr != nil {
		list = append(list, fmt.Sprintf("other agents count as they were last seen, and definitions stay as they are: %v", g.lastErr))
	}
	g.mu.Unlock()
	return append(list, g.view.Load().warnings...)
}

// Conflict delivers one error that wraps [ErrDuplicateAgent] when another live agent has this one's id and was there
// first. This agent is to be stopped then; it is invisible to others already.
func (g *Group) Conflict() <-chan error { return g.conflict }

// post has f run by the owner. After the end it is dropped.
func (g *Group) post(f func(*owner)) {
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return
	}
	g.inbox = append(g.inbox, f)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (g *Group) take() []func(*owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	events := g.inbox
	g.inbox = nil
	return events
}

// end empties the inbox for the last time.
func (g *Group) end() []func(*owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	events := g.inbox
	g.inbox, g.ended = nil, true
	return events
}

func (g *Group) demandOf(capsule string) (demand, failing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.demand[capsule], g.failing[capsule]
}

func (g *Group) allListeners() []func(Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listeners
}

func (g *Group) setErr(err error, deaf bool) {
	g.mu.Lock()
	g.lastErr, g.deaf = err, deaf
	g.mu.Unlock()
}

func (g *Group) giveUp(err error) {
	g.mu.Lock()
	g.gaveUpErr = err
	g.mu.Unlock()
	close(g.gaveUp)
	g.conflict <- err
}
