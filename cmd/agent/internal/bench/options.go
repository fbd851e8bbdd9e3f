package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/config"
)

// payloadSize is the size of every message, in bytes.
const payloadSize = 256

// Options say what to measure. DefaultOptions has everything but URL, Dir and Start.
type Options struct {
	URL string // of the NATS server
	Dir string // an empty folder for sockets
	// Version of the program and OwnServer, whether the server runs in this process, are only noted in the report.
	Version   string
	OwnServer bool

	// Start starts an agent and returns when it is ready. The function returned stops it.
	Start func(ctx context.Context, cfg *config.Config) (stop func(), err error)

	Profiles    []string // names of Profiles, or AllProfiles; none: the quick ones
	Messages    int      // of one row
	Pull        int      // messages per pull
	Connections []int    // how many connections take at a time; a column each
	Rounds      int      // how often each row is run
	Singles     int      // single messages, for the time from publish to delivery
	Takes       int      // single takes, for their cost
	Waiting     []int    // how many messages wait during them
	Agents      []int    // how many agents share a queue, in that profile; a row each
	Neighbour   NeighbourOptions

	Progress func(done, total int, what string) // called before each step, and once at the end; may be nil
}

// DefaultOptions returns what the command measures.
func DefaultOptions() Options {
	return Options{
		Messages: 20_000, Pull: 64, Connections: []int{1, 4}, Rounds: 2,
		Singles: 500, Takes: 300, Waiting: []int{1000, 100_000}, Agents: []int{1, 2, 4, 8},
		Neighbour: NeighbourOptions{
			Flood: 5000, Quiet: 10, Every: 20 * time.Millisecond, During: 1500 * time.Millisecond, Work: 4 * time.Millisecond, Slots: 8,
		},
	}
}

// Validate returns all that is wrong.
func (o *Options) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("bench: "+format, args...))
		}
	}
	check(o.Messages >= 1, "messages: %d: 1 or more", o.Messages)
	check(o.Pull >= 1 && o.Pull <= 1000, "pull: %d: 1 to 1000", o.Pull)
	check(o.Rounds >= 1, "rounds: %d: 1 or more", o.Rounds)
	check(len(o.Connections) > 0, "connections: at least one number")
	for _, n := range o.Connections {
		check(n >= 1 && n <= 256, "connections: %d: 1 to 256", n)
	}
	for _, n := range o.Waiting {
		check(n >= 1 && n <= 10_000_000, "waiting: %d: 1 to 10,000,000", n)
	}
	for _, n := range o.Agents {
		check(n >= 1 && n <= 64, "agents: %d: 1 to 64", n)
	}
	o.checkProfiles(check)
	if o.runs(noisyNeighbour) {
		o.Neighbour.check(check)
	}
	if o.runs(manyAgents) {
		check(len(o.Agents) > 0, "agents: at least one number")
		check(o.Messages >= shareUnit, "messages: %d: %d or more, to see shares", o.Messages, shareUnit)
	}
	return errors.Join(wrong...)
}

// layout is one kind of queue.
type layout struct {
	profile string
	name    string
	levels  int
	keys    int                      // 0: fair share off, no keys
	weights map[string]config.Weight // by key; nil: 1 for all
}

var layouts = []layout{
	{"one-tenant", "1 level, no keys", 1, 0, nil},
	{"10-tenants", "3 levels × 10 keys", 3, 10, nil},
	{"1000-tenants", "3 levels × 1000 keys", 3, 1000, nil},
}

// usual is the layout of what is measured on one kind of queue only.
var usual = layouts[1]

const bareName = "bare JetStream loop"
