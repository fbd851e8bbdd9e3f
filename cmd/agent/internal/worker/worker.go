package worker

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/client"
)

// Options say what to run for whom.
type Options struct {
	Client      *client.Client
	Capsule     string
	Concurrency int           // commands at a time; at least 1
	Lease       time.Duration // how long a delivery lives without an extension; 0 means the capsule's
	Command     []string      // name and arguments
	Environ     []string      // what the command's environment begins with, as os.Environ has it
	Stdout      io.Writer     // of all commands; an *os.File is handed to them as it is
	Stderr      io.Writer     // of all commands, whole lines at a time, and of what an operator should know

	MaxMessages   int  // end after this many messages; 0 means no limit
	ExitWhenEmpty bool // end when nothing waits and nothing runs

}

// Summary is what a worker did.
type Summary struct {
	Acked  int // done, and confirmed
	Nacked int // failed, and given back
	Lost   int // run, but the result came too late or could not be told: delivered again
	Killed int // ended by Kill, and given back
}

// String is the one line that ends a run.
func (s Summary) String() string {
	all, noun := s.Acked+s.Nacked+s.Lost+s.Killed, "messages"
	if all == 1 {
		noun = "message"
	}
	return fmt.Sprintf("%d %s: %d acked, %d nacked, %d lost, %d killed", all, noun, s.Acked, s.Nacked, s.Lost, s.Killed)
}

// Worker works through a capsule. Make it with New and run it once.
type Worker struct {
	options  Options
	path     string // of the command
	sessions *sessions
	stdout   io.Writer
	stderr   io.Writer
	pulling  context.Context // ends when no more is to be pulled
	stop     context.CancelCauseFunc

	mu      sync.Mutex
	summary Summary
	left    int                                // of MaxMessages
	idle    int                                // slots whose last answer was empty, or that ended
	empty   bool                               // all were idle at one time
	away    bool                               // the agent does not answer
	running map[string]context.CancelCauseFunc // by token
}

// New returns a worker. The error is ErrCommand.
func New(o Options) (*Worker, error) {
	path, err := exec.LookPath(o.Command[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCommand, err)
	}
	lock := &sync.Mutex{}
	w := &Worker{
		options: o, path: path, left: o.MaxMessages,
		stdout:  shared(o.Stdout, lock),
		stderr:  &locked{to: o.Stderr, lock: lock},
		running: map[string]context.CancelCauseFunc{},
	}
	if o.MaxMessages == 0 {
		w.left = -1
	}
	return w, nil
}

// Run works until ctx ends, lets the commands that run then come to their end, and tells their results. When kill ends, they
// are killed, and their messages are given back. It returns early with an error that no repetition can mend, such as an
// unknown capsule, and with ErrNoAgent when nobody answers at the start.
func (w *Worker) Run(ctx, kill context.Context) (Summary, error) {
	w.pulling, w.stop = context.WithCancelCause(ctx)
	defer w.stop(nil)
	// The session outlives the pulls: it holds what still runs.
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	s, err := openSessions(holding, w)
	if err != nil {
		return Summary{}, err
	}
	w.sessions = s
	defer s.close()

	var slots sync.WaitGroup
	for range w.options.Concurrency {
		slots.Go(func() { (&slot{worker: w}).run(kill) })
	}
	slots.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.summary, w.fatal(ctx)
}

// fatal returns why the worker stopped itself, if it did.
func (w *Worker) fatal(ctx context.Context) error {
	if cause := context.Cause(w.pulling); cause != nil && ctx.Err() == nil {
		return cause
	}
	return nil
}

// logf says something to the operator.
func (w *Worker) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.stderr, "fairlead: work: "+format+"\n", args...)
}

// reserve takes one message off MaxMessages.
func (w *Worker) reserve() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return false
	}
	if w.left > 0 {
		w.left--
	}
	return true
}

// unreserve puts it back.
func (w *Worker) unreserve() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left >= 0 {
		w.left++
	}
}

// rest notes that a slot got nothing. Once all of them got nothing, the capsule was empty while nothing ran.
func (w *Worker) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle++
	if w.idle == w.options.Concurrency {
		w.empty = true
	}
}

// wake takes rest back.
func (w *Worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle--
}

func (w *Worker) wasEmpty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.empty
}

func (w *Worker) tally(change func(*Summary)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.summary)
}

// answers notes whether the agent answers, and logs each change once, however many slots see it.
func (w *Worker) answers(err error) {
	w.mu.Lock()
	changed := w.away == (err == nil)
	w.away = err != nil
	w.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		w.logf("%v; trying again", err)
	default:
		w.logf("the agent answers again")
	}
}
