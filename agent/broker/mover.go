package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/seldom"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

const (
	// moveBatch is how many due messages a mover takes at a time. They are in its hands for a few milliseconds.
	moveBatch = 128
	// moveWait is how long a mover's question stays open at the server.
	moveWait = 30 * time.Second
	// moveLimit is how long after it got them a mover may still move messages: well before another mover gets them.
	moveLimit = moverAckWait / 3
	// moverPause and moverPauseMost are the wait after a failure, which doubles, and while a queue is full.
	moverPause     = 100 * time.Millisecond
	moverPauseMost = time.Second
)

// MoveDelayed moves the delayed messages of a queue into it when they are due, until ctx ends. Any number of agents do so at
// the same time; they share the messages. definition is the one in force; while there is none, nothing is moved.
//
// A message enters the queue as one that was just published: at its level, with its key, weight, id and headers, under the
// queue's limits. In a full queue it waits and is tried again, about once a second. One that has expired is removed instead.
//
// # Once
//
// The copy is stored first, and then the original is deleted, so that nothing is lost when the agent stops in between. The
// original then comes to another mover, or to this one when it is back. Two things keep it from being stored again:
//
//   - The copy's id is made of the handle. JetStream refuses a second one inside the queue's dedup window.
//   - A copy leaves the queue only after nothing is left of its original ([Client.Finish]). So a mover that gets a message
//     which became due longer than half the dedup window ago looks through the queue for the copy, and if there is none,
//     whether the original is still there. If it is, no copy was ever stored, however long ago that was.
//
// What is left is a mover that is stopped between its last look and the write (a paused process, a network that holds a
// write back) for longer than the dedup window: a mover looks at its own clock before each write, so this needs a pause in
// just that instant.
func (c *Client) MoveDelayed(ctx context.Context, queue string, definition func() (config.Queue, bool)) {
	m := &mover{c: c, queue: queue, definition: definition, log: c.seldom}
	m.back = make(chan struct{}, 1)
	c.Notify(func(up bool) {
		if up {
			select {
			case m.back <- struct{}{}:
			default:
			}
		}
	})
	pause := moverPause
	for ctx.Err() == nil {
		err := m.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if m.worked {
			m.worked, pause = false, moverPause
		}
		if err != nil && !errors.Is(err, ErrUnavailable) {
			m.log.Warn("delayed messages cannot be moved; trying again", "queue", queue, "error", err)
		}
		if errors.Is(err, ErrStreamMissing) {
			pause = 5 * time.Second
		}
		m.rest(ctx, pause)
		pause = min(2*pause, 5*time.Second)
	}
}

// mover is one call of MoveDelayed.
type mover struct {
	c          *Client
	queue      string
	definition func() (config.Queue, bool)
	log        *seldom.Log
	back       chan struct{} // written when NATS is back
	worked     bool          // something was moved since the last failure
	full       bool          // the queue was full when last tried
	copies     copies
	look       time.Time // when to look for overdue messages next; zero: it was not set yet
}

// rest waits, at most until NATS is back.
func (m *mover) rest(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.back:
	case <-ctx.Done():
	}
}

// run moves what is due until something fails.
func (m *mover) run(ctx context.Context) error {
	consumer, err := m.c.ensureMover(ctx, m.queue)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		m.lookForOverdue(ctx)
		due, err := m.take(ctx, consumer)
		if err != nil {
			return err
		}
		if len(due) == 0 {
			continue
		}
		def, ok := m.definition()
		if !ok {
			m.putBack(due, moverPauseMost)
			m.rest(ctx, moverPauseMost)
			continue
		}
		if err := m.move(ctx, def, due); err != nil {
			return err
		}
		m.worked = true
		if m.full {
			m.rest(ctx, moverPauseMost)
		}
	}
	return nil
}

// take waits for a due message, and takes what else is there. While the queue is full it takes one, to try with.
func (m *mover) take(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, moveWait)
	defer cancel()
	// A question from before a connection broke has no answer.
	answered := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-m.back:
			cancel()
		case <-answered:
		case <-wait.Done():
		}
	})
	due, err := fetch(consumer.Fetch(1, jetstream.FetchContext(wait)))
	close(answered)
	watch.Wait()
	if len(due) == 0 || m.full {
		if wait.Err() != nil {
			err = nil // nothing was due
		}
		return due, wire.Translate(err)
	}
	more, err := fetch(consumer.FetchNoWait(moveBatch - 1))
	if err != nil && len(more) == 0 {
		return due, nil // these first
	}
	return append(due, more...), nil
}

// fetch reads a batch.
func fetch(batch jetstream.MessageBatch, err error) ([]jetstream.Msg, error) {
	if err != nil {
		return nil, err
	}
	var list []jetstream.Msg
	for m := range batch.Messages() {
		list = append(list, m)
	}
	return list, batch.Error()
}

// putBack lets messages come again after a time.
func (m *mover) putBack(due []jetstream.Msg, after time.Duration) {
	for _, d := range due {
		_ = d.NakWithDelay(after) // if that is lost, JetStream gives it to somebody after its acknowledgement wait
	}
}
