package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// CheckAccess looks whether this agent could work with NATS as it stands: whether the server is there and has JetStream,
// whether what the queues need exists or may be made, and whether this identity may publish, read, take and finish.
// It returns what is wrong as sentences, in the order of the queues; nil when all is well.
//
// Nothing is made, changed or stored: rights are tried with requests that JetStream itself refuses, for instance a
// publish that expects another stream. Everything is tried at the same time.
func (c *Client) CheckAccess(ctx context.Context, queues []config.Queue) []string {
	if !c.Connected() {
		return []string{c.unreachable()}
	}
	// Without these two there is no answer to anything else.
	if err := c.trySubscribe(ctx, c.wire.NC.NewInbox()+".*"); err != nil {
		return []string{"answers of NATS cannot be heard: " + c.why(c.names.InboxPrefix()+".>", err)}
	}
	if problem := c.checkJetStream(ctx); problem != "" {
		return []string{problem}
	}
	checks := make([]func() []string, 0, 4*len(queues)+1)
	for _, q := range queues {
		checks = append(checks,
			func() []string { return c.checkQueue(ctx, q) },
			func() []string { return c.checkDeadStream(ctx, q) },
			func() []string { return c.checkDelays(ctx, q) },
			func() []string { return c.checkPermits(ctx, q) })
	}
	checks = append(checks, func() []string { return c.checkBucket(ctx, queues) })

	found := make([][]string, len(checks))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16) // JetStream's API has few workers
	for i, check := range checks {
		wg.Go(func() {
			slots <- struct{}{}
			found[i] = check()
			<-slots
		})
	}
	wg.Wait()
	var problems []string
	for _, p := range found {
		problems = append(problems, p...)
	}
	return problems
}

func (c *Client) unreachable() string {
	reason := c.Connection().LastError
	if reason == "" {
		reason = "no answer yet"
	}
	return "NATS cannot be reached at " + strings.Join(c.wire.NC.Servers(), ", ") + ": " + reason
}

func (c *Client) checkJetStream(ctx context.Context) string {
	if err := c.tryRight(ctx, rights.Info()); err != nil {
		return "JetStream did not answer: " + c.why("$JS.API.INFO", err)
	}
	answer, err := c.wire.API(ctx, "INFO", nil)
	var r struct {
		Error *wire.APIError `json:"error"`
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return strings.TrimPrefix(ErrNoJetStream.Error(), "broker: ")
	case err != nil:
		return "JetStream did not answer: " + c.why("$JS.API.INFO", err)
	case json.Unmarshal(answer, &r) != nil:
		return "JetStream's answer to $JS.API.INFO cannot be read"
	case r.Error != nil:
		return "JetStream cannot be used by this account: " + r.Error.Description
	}
	return ""
}

// why explains an error; when the server has named a missing right, in its words.
func (c *Client) why(subject string, err error) string {
	if refused := new(NotPermittedError); errors.As(err, &refused) {
		return refused.Sentence()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return "no answer in time: this identity may lack the right to use " + subject
	}
	return err.Error()
}

// tries finds out at once which of several rights this identity lacks, and describes them.
func (c *Client) tries(ctx context.Context, owner string, list []rights.Right) []string {
	ctx, cancel := context.WithTimeout(ctx, wire.AnswerWait)
	defer cancel()
	found := make([]string, len(list))
	var wg sync.WaitGroup
	for i, r := range list {
		wg.Go(func() {
			if err := c.tryRight(ctx, r); err != nil {
				if refused := new(NotPermittedError); errors.As(err, &refused) {
					refused.Missing = rights.Permission{Direction: r.Direction, Subject: r.Subject} // the rest is said before it
				}
				found[i] = fmt.Sprintf("%s: may not %s: %s", owner, r.May, c.why(r.Subject, err))
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(found, func(p string) bool { return p == "" })
}

// tryRight does what needs a right, so that nothing comes of it. Its error says that this identity has not got it.
func (c *Client) tryRight(ctx context.Context, r rights.Right) error {
	if r.Direction == rights.Subscribe {
		return c.trySubscribe(ctx, r.Tried())
	}
	m := &nats.Msg{Subject: r.Tried(), Header: r.Header, Data: []byte(r.Body)}
	if r.Silent {
		if err := c.wire.NC.PublishMsg(m); err != nil {
			return err
		}
		return c.whetherDenied(ctx, rights.Publish, m.Subject)
	}
	_, err := wire.Permitted(ctx, c.wire, m.Subject, func(ctx context.Context) (*nats.Msg, error) { return c.wire.NC.RequestMsgWithContext(ctx, m) })
	if errors.Is(err, nats.ErrNoResponders) {
		return nil // it was sent, which is what is to be shown; the streams were looked at before
	}
	return err
}

// trySubscribe subscribes for a moment.
func (c *Client) trySubscribe(ctx context.Context, subject string) error {
	sub, err := c.wire.NC.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	return c.whetherDenied(ctx, rights.Subscribe, subject)
}

// whetherDenied waits until the server has refused the use of a subject, if it does. It refuses before it answers the flush
// that follows; the client hears of it a moment later.
func (c *Client) whetherDenied(ctx context.Context, dir rights.Direction, subject string) error {
	if err := c.wire.NC.FlushWithContext(ctx); err != nil {
		return err
	}
	for range 20 {
		if denied := c.wire.Denied(dir, subject); denied != nil {
			return denied
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// missing is what there is to say of a stream that does not exist.
func (c *Client) missing(ctx context.Context, group rights.Group) []string {
	r := rights.Call("STREAM.CREATE", group.Stream, "make stream "+group.Stream+", which does not exist (run setup with an identity that may)")
	return c.tries(ctx, group.Owner, []rights.Right{r})
}

// checkStream looks at a stream and, when it exists, tries what agents do with it. different tells whether the stream is to
// be changed to what the file says.
func (c *Client) checkStream(ctx context.Context, group rights.Group, different func(jetstream.StreamConfig) bool) (problems []string, info *jetstream.StreamInfo) {
	info, err := c.inspect(ctx, group.Stream)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", group.Owner, group.Stream, c.why("$JS.API.STREAM.INFO."+group.Stream, err))}, nil
	case info == nil:
		return c.missing(ctx, group), nil
	case info.Config.Retention != jetstream.LimitsPolicy:
		return []string{fmt.Sprintf("%s: stream %s exists with %s retention and was not made by Fairlead: rename the queue or remove the stream", group.Owner, group.Stream, info.Config.Retention)}, nil
	}
	list := group.List
	if different(info.Config) {
		list = append(slices.Clip(list), rights.Call("STREAM.UPDATE", group.Stream, "change stream "+group.Stream+" to what the file says"))
	}
	return c.tries(ctx, group.Owner, list), info
}

func (c *Client) checkQueue(ctx context.Context, q config.Queue) []string {
	group := rights.OfQueue(c.names, q)
	problems, info := c.checkStream(ctx, group, func(have jetstream.StreamConfig) bool {
		return !sameConfig(have, mergeConfig(have, c.streamConfig(q)))
	})
	if info == nil {
		other, err := wire.Permitted(ctx, c.wire, "$JS.API.STREAM.NAMES", func(ctx context.Context) (string, error) {
			return c.wire.JS.StreamNameBySubject(ctx, c.names.Subjects(q.Name))
		})
		if err == nil && other != group.Stream { // an identity that may not ask need not be told
			problems = append(problems, fmt.Sprintf("%s: stream %s already takes subjects of %s: choose another nats.prefix or name, or change that stream", group.Owner, other, c.names.Subjects(q.Name)))
		}
	}
	return append(problems, c.checkSources(ctx, q)...)
}

func (c *Client) checkDelays(ctx context.Context, q config.Queue) []string {
	problems, _ := c.checkStream(ctx, rights.OfDelayed(c.names, q), func(have jetstream.StreamConfig) bool {
		_, same := c.mergeDelayStream(have, q)
		return !same
	})
	return problems
}

func (c *Client) checkPermits(ctx context.Context, q config.Queue) []string {
	if NewLayout(q).Cap == 0 {
		return nil
	}
	problems, _ := c.checkStream(ctx, rights.OfPermits(c.names, q), func(jetstream.StreamConfig) bool { return false })
	return problems
}

// checkDeadStream looks whether messages that are given up can be kept, shown and tried again.
func (c *Client) checkDeadStream(ctx context.Context, q config.Queue) []string {
	if !q.DeadLetters.Enabled {
		return nil
	}
	problems, _ := c.checkStream(ctx, rights.OfDeadLetters(c.names, q), func(have jetstream.StreamConfig) bool {
		_, same := c.mergeDeadStream(have, q)
		return !same
	})
	return problems
}

func (c *Client) checkBucket(ctx context.Context, queues []config.Queue) []string {
	leased := slices.ContainsFunc(queues, func(q config.Queue) bool { return q.SingleActiveConsumer })
	group := rights.OfBucket(c.names, leased)
	problems, info := c.checkStream(ctx, group, func(jetstream.StreamConfig) bool { return false })
	if info != nil && info.State.FirstSeq < bucket.MinFence && info.State.LastSeq < bucket.MinFence {
		problems = append(problems, group.Owner+": was made by hand: its revisions start too low to serve as fences; delete it and let Fairlead make it")
	}
	return problems
}

// inspect returns what a stream is, or nil when it does not exist.
func (c *Client) inspect(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, wire.AnswerWait)
	defer cancel()
	s, err := c.wire.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}
