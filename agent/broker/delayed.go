package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

const (
	// delayedMost is the most delayed messages that one list has.
	delayedMost = 1000
	// cancelMargin is how long before its time a delayed message can be cancelled, at the latest. JetStream reads a message
	// whose time has come, and stores it again a moment later: a deletion in between would not keep it from coming.
	cancelMargin = 100 * time.Millisecond
	// firingLimit is how long that moment may be.
	firingLimit = 2 * time.Second
)

var (
	// ErrUnknownHandle says that no delayed message has a handle: it never had one, was delivered to its queue, or was
	// cancelled before.
	ErrUnknownHandle = errors.New("broker: no delayed message has this handle")
	// ErrDue says that a delayed message cannot be cancelled any more: its time has come, or is about to. It wraps
	// [ErrUnknownHandle].
	ErrDue = fmt.Errorf("%w any more: its time has come", ErrUnknownHandle)
)

// Delayed is one delayed message.
type Delayed struct {
	Handle string
	At     time.Time // when it enters the queue
	Due    bool      // its time has come: it waits for room in the queue, or for an agent
	Level  int       // the level that it would be served at now
	Key    string    // "" is unkeyed
	ID     string    // as given by the publisher, or ""
	Size   int       // bytes of the payload as stored
	Stored time.Time // when it was published
	// Expires is until when it may be delivered; zero is for ever.
	Expires time.Time
}

// DelayedList is what Delayed returns.
type DelayedList struct {
	Messages []Delayed // the next to come first
	Total    uint64    // of all delayed messages, whatever was asked for
}

// Delayed lists the delayed messages of a queue, the next to come first: at most most of them, 1 to 1,000. It costs about
// 2 ms per thousand delayed messages, and a read for each that is returned. Errors wrap [ErrStreamMissing] or
// [ErrUnavailable].
func (c *Client) Delayed(ctx context.Context, layout Layout, most int) (DelayedList, error) {
	stream := c.names.DelayStream(layout.Queue)
	all, _, err := c.delayedUnder(ctx, layout.Queue, ">")
	if err != nil {
		return DelayedList{}, err
	}
	list := DelayedList{Total: uint64(len(all)), Messages: []Delayed{}}
	slices.SortFunc(all, func(a, b names.Delayed) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Handle, b.Handle)) })
	for _, d := range all[:min(len(all), max(most, 1), delayedMost)] {
		m, err := c.wire.Read(ctx, stream, wire.Look{Seq: 1, Filter: c.names.DelayPrefix(layout.Queue) + d.Subject()})
		if err != nil {
			return DelayedList{}, err
		}
		if m == nil {
			continue // it came, or was cancelled, meanwhile
		}
		key, _ := names.DecodeKey(d.Token)
		list.Messages = append(list.Messages, Delayed{
			Handle: d.Handle, At: d.At, Due: d.Due, Level: layout.levelOf(d.Class), Key: key, ID: m.Header.Get(headerID), Size: len(m.Data),
			Stored: m.Time, Expires: expiryOf(m.Header.Get(headerExpires)),
		})
	}
	return list, nil
}

// DelayedCounts counts the delayed messages of a queue by the level that they would be served at now.
func (c *Client) DelayedCounts(ctx context.Context, layout Layout) ([]uint64, error) {
	counts := make([]uint64, layout.Levels)
	all, _, err := c.delayedUnder(ctx, layout.Queue, ">")
	if errors.Is(err, ErrStreamMissing) {
		return counts, nil // then there are none
	}
	for _, d := range all {
		counts[layout.levelOf(d.Class)]++
	}
	return counts, err
}

// levelOf is the level at which messages with a level token are served.
func (l Layout) levelOf(class string) int {
	level, _ := names.ClassLevel(class)
	if level < 0 {
		return l.Default
	}
	return min(level, l.Levels-1)
}

// delayedUnder returns the delayed messages of a queue whose subjects match a filter, in any order, and the server's time.
func (c *Client) delayedUnder(ctx context.Context, queue, filter string) ([]names.Delayed, time.Time, error) {
	prefix := c.names.DelayPrefix(queue)
	info, err := c.wire.Subjects(ctx, c.names.DelayStream(queue), prefix+filter)
	if err != nil {
		return nil, time.Time{}, err
	}
	all := make([]names.Delayed, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		if d, ok := names.ParseDelayed(strings.TrimPrefix(subject, prefix)); ok {
			all = append(all, d)
		}
	}
	return all, info.Now, nil
}

// CancelDelayed removes a delayed message. It will not be delivered when this returns nil. When it returns
// [ErrUnknownHandle], nothing was changed: there is no such message, or its time has come ([ErrDue]), at the latest a tenth
// of a second before. Other errors wrap [ErrStreamMissing] or [ErrUnavailable], and after [ErrOutcomeUnknown] it may be gone:
// ask again. Of several who cancel a message, one gets nil.
func (c *Client) CancelDelayed(ctx context.Context, queue, handle string) error {
	if _, ok := names.ParseHandle(handle); !ok {
		return ErrUnknownHandle
	}
	found, now, err := c.delayedUnder(ctx, queue, "*.*.*."+handle)
	if err != nil {
		return err
	}
	switch {
	case len(found) == 0:
		return ErrUnknownHandle
	case len(found) > 1 || found[0].Due || found[0].At.Sub(now) < cancelMargin:
		return ErrDue
	}
	stream := c.names.DelayStream(queue)
	m, err := c.wire.Read(ctx, stream, wire.Look{Seq: 1, Filter: c.names.DelayPrefix(queue) + found[0].Subject()})
	if err != nil {
		return err
	}
	if m == nil {
		return ErrUnknownHandle // somebody was faster
	}
	gone := make(chan Finish, 1)
	c.drop(stream, m.Seq, 1, func(f Finish) { gone <- f })
	select {
	case f := <-gone:
		if f == AlreadyFinished {
			return ErrUnknownHandle
		}
		if f == FinishUnknown {
			return ErrOutcomeUnknown
		}
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	if err := c.notFiring(ctx, queue, found[0]); err != nil {
		return err
	}
	c.metrics.Cancelled.Add(1)
	return nil
}

// notFiring makes sure that a delayed message that was deleted is not on its way to its queue all the same: that it was
// deleted before its time, by the clock that decides, or else that it does not turn up.
func (c *Client) notFiring(ctx context.Context, queue string, d names.Delayed) error {
	for begin := time.Now(); ; {
		found, now, err := c.delayedUnder(ctx, queue, "*.*.*."+d.Handle)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		case len(found) > 0:
			return ErrDue
		case now.Before(d.At), time.Since(begin) > firingLimit:
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
		}
	}
}
