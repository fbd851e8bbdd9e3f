package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/config"
)

// CheckAccess looks whether this agent could work with NATS as it stands: whether the server is there and has JetStream,
// whether what the queues need exists or may be made, and whether this identity may publish, read, take and finish.
// It returns what is wrong as sentences, in the order of the queues; nil when all is well.
//
// Nothing is made, changed or stored: rights are tried with requests that JetStream itself refuses, for instance a
// publish that expects another stream. An identity without a right gets no answer, which takes 2 s to notice; everything
// is tried at the same time, so that the call takes little longer than that, however many queues there are.
func (c *Client) CheckAccess(ctx context.Context, queues []config.Queue, bucket string) []string {
	if !c.Connected() {
		return []string{c.unreachable()}
	}
	if problem := c.checkJetStream(ctx); problem != "" {
		return []string{problem}
	}
	checks := make([]func() []string, 0, 2*len(queues)+1)
	for _, q := range queues {
		checks = append(checks,
			func() []string { return append(c.checkQueue(ctx, q), c.checkSources(ctx, q)...) },
			func() []string { return append(c.checkDelays(ctx, q), c.checkPermits(ctx, q)...) })
	}
	checks = append(checks, func() []string { return c.checkBucket(ctx, bucket) })

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
	return "NATS cannot be reached at " + strings.Join(c.nc.Servers(), ", ") + ": " + reason
}

func (c *Client) checkJetStream(ctx context.Context) string {
	answer, err := c.api(ctx, "INFO", nil)
	var r struct {
		Error *apiError `json:"error"`
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "JetStream is not enabled on this server or for this account: switch it on (nats-server -js), or use another account"
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
	if denied := c.denied(subject); denied != "" {
		return denied
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return "no answer in time: this identity may lack the right to use " + subject
	}
	return err.Error()
}

// try is one request that JetStream refuses without doing anything, if this identity may make it at all.
type try struct {
	what    string // "publish to …"
	subject string
	header  nats.Header
	body    string
}

// tries makes several requests at once and describes those that were not answered.
func (c *Client) tries(ctx context.Context, owner string, list []try) []string {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	found := make([]string, len(list))
	var wg sync.WaitGroup
	for i, t := range list {
		wg.Go(func() {
			_, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: t.subject, Header: t.header, Data: []byte(t.body)})
			if err != nil {
				found[i] = fmt.Sprintf("%s: may not %s: %s", owner, t.what, c.why(t.subject, err))
			}
		})
	}
	wg.Wait()
	var problems []string
	for _, p := range found {
		if p != "" {
			problems = append(problems, p)
		}
	}
	return problems
}

// refused is the body of a request that JetStream cannot read, and so answers without doing anything.
const refused = "-"

// elsewhere makes JetStream refuse a publish: no stream has this name.
var elsewhere = nats.Header{"Nats-Expected-Stream": {"fairlead-checks-access"}}

// badPurge is a purge that JetStream cannot read. What is no object at all it would take for a purge of everything.
const badPurge = `{"keep":"fairlead checks access"}`

func (c *Client) checkQueue(ctx context.Context, q config.Queue) []string {
	owner := "queue " + q.Name
	name := c.names.Stream(q.Name)
	info, err := c.inspect(ctx, name)
	if err != nil {
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", owner, name, c.why("$JS.API.STREAM.INFO."+name, err))}
	}
	if info == nil {
		problems := c.tries(ctx, owner, []try{{
			what: "make its stream " + name + ", which does not exist (run setup with an identity that may)", subject: "$JS.API.STREAM.CREATE." + name,
			body: refused,
		}})
		if other, err := c.js.StreamNameBySubject(ctx, c.names.Subjects(q.Name)); err == nil {
			problems = append(problems, fmt.Sprintf("%s: stream %s already takes subjects of %s: choose another nats.prefix or name, or change that stream", owner, other, c.names.Subjects(q.Name)))
		}
		return problems
	}
	if info.Config.Retention != jetstream.LimitsPolicy {
		return []string{fmt.Sprintf("%s: stream %s exists with %s retention and was not made by Fairlead: rename the queue or remove the stream", owner, name, info.Config.Retention)}
	}
	list := []try{
		{what: "publish", subject: c.names.subjectPrefix(q.Name) + defaultClass + "." + unkeyedToken, header: elsewhere},
		{what: "make lane consumers", subject: "$JS.API.CONSUMER.CREATE." + name + ".fairlead-checks-access", body: refused},
		{what: "list lane consumers", subject: "$JS.API.CONSUMER.LIST." + name, body: refused},
		{what: "look at messages", subject: "$JS.API.STREAM.MSG.GET." + name, body: refused},
		{what: "finish messages", subject: "$JS.API.STREAM.MSG.DELETE." + name, body: refused},
	}
	if !sameConfig(info.Config, mergeConfig(info.Config, c.streamConfig(q))) {
		list = append(list, try{what: "change its stream " + name + " to what the file says", subject: "$JS.API.STREAM.UPDATE." + name, body: refused})
	}
	problems := append(c.tries(ctx, owner, list), c.checkDeadStream(ctx, q)...)
	if p := c.checkSubscribe(ctx, c.names.wakePrefix(q.Name)+"*.*"); p != "" {
		problems = append(problems, owner+": may not listen for wake-ups: "+p)
	}
	return problems
}

// checkDeadStream looks whether messages that are given up can be kept, shown and tried again.
func (c *Client) checkDeadStream(ctx context.Context, q config.Queue) []string {
	if !q.DeadLetters.Enabled {
		return nil
	}
	owner := "dead letters of queue " + q.Name
	name := c.names.DeadStream(q.Name)
	info, err := c.inspect(ctx, name)
	if err != nil {
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", owner, name, c.why("$JS.API.STREAM.INFO."+name, err))}
	}
	if info == nil {
		return c.tries(ctx, owner, []try{{
			what: "make their stream " + name + ", which does not exist (run setup with an identity that may)", subject: "$JS.API.STREAM.CREATE." + name,
			body: refused,
		}})
	}
	list := []try{
		{what: "be stored", subject: c.names.deadPrefix(q.Name) + defaultClass + "." + unkeyedToken + ".0", header: elsewhere},
		{what: "be listed", subject: "$JS.API.CONSUMER.CREATE." + name + ".fairlead-checks-access", body: refused},
		{what: "be read", subject: "$JS.API.STREAM.MSG.GET." + name, body: refused},
		{what: "be taken out", subject: "$JS.API.STREAM.MSG.DELETE." + name, body: refused},
		{what: "be purged", subject: "$JS.API.STREAM.PURGE." + name, body: badPurge},
	}
	if _, same := c.mergeDeadStream(info.Config, q); !same {
		list = append(list, try{what: "have their stream " + name + " changed to what the file says", subject: "$JS.API.STREAM.UPDATE." + name, body: refused})
	}
	return c.tries(ctx, owner, list)
}

func (c *Client) checkBucket(ctx context.Context, bucket string) []string {
	owner := "bucket " + bucket
	name := "KV_" + bucket
	info, err := c.inspect(ctx, name)
	if err != nil {
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", owner, name, c.why("$JS.API.STREAM.INFO."+name, err))}
	}
	if info == nil {
		return c.tries(ctx, owner, []try{{
			what: "be made, and does not exist (run setup with an identity that may)", subject: "$JS.API.STREAM.CREATE." + name,
			body: refused,
		}})
	}
	var problems []string
	if info.State.FirstSeq < minFence && info.State.LastSeq < minFence {
		problems = append(problems, owner+": was made by hand: its revisions start too low to serve as fences; delete it and let Fairlead make it")
	}
	return append(problems, c.tries(ctx, owner, []try{
		{what: "be written", subject: "$KV." + bucket + "." + syncKey, header: elsewhere},
		{what: "be watched", subject: "$JS.API.CONSUMER.CREATE." + name + ".fairlead-checks-access", body: refused},
	})...)
}

// inspect returns what a stream is, or nil when it does not exist.
func (c *Client) inspect(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// checkSubscribe subscribes for a moment. The server refuses a subscription before it answers the flush that follows;
// the client hears of it a moment later.
func (c *Client) checkSubscribe(ctx context.Context, subject string) string {
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return err.Error()
	}
	for range 20 {
		if denied := c.denied(subject); denied != "" {
			return denied
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return ""
}
