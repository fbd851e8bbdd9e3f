package broker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/config"
)

// checkDelays is checkQueue for the stream of a queue's delayed messages.
func (c *Client) checkDelays(ctx context.Context, q config.Queue) []string {
	owner := "queue " + q.Name
	name := c.names.DelayStream(q.Name)
	info, err := c.inspect(ctx, name)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", owner, name, c.why("$JS.API.STREAM.INFO."+name, err))}
	case info == nil:
		return c.tries(ctx, owner, []try{{
			what: "make its stream " + name + ", which does not exist (run setup with an identity that may)", subject: "$JS.API.STREAM.CREATE." + name,
			body: refused,
		}})
	case info.Config.Retention != jetstream.LimitsPolicy:
		return []string{fmt.Sprintf("%s: stream %s exists with %s retention and was not made by Fairlead: rename the queue or remove the stream", owner, name, info.Config.Retention)}
	}
	scheduled := delayed{class: defaultClass, token: unkeyedToken, handle: "fairlead-checks-access"}
	list := []try{
		{what: "publish delayed messages", subject: c.names.delayPrefix(q.Name) + scheduled.subject(), header: elsewhere},
		{what: "make the consumer of due messages", subject: "$JS.API.CONSUMER.CREATE." + name + ".fairlead-checks-access", body: refused},
		{what: "look at delayed messages", subject: "$JS.API.STREAM.MSG.GET." + name, body: refused},
		{what: "move and cancel delayed messages", subject: "$JS.API.STREAM.MSG.DELETE." + name, body: refused},
	}
	if want, same := c.mergeDelayStream(info.Config, q); !same {
		list = append(list, try{what: "change its stream " + want.Name + " to what the file says", subject: "$JS.API.STREAM.UPDATE." + name, body: refused})
	}
	return c.tries(ctx, owner, list)
}
