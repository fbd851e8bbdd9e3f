package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead/fairlead/config"
)

// checkPermits is checkQueue for the permits of a queue with a cap per key, or with ordered keys.
func (c *Client) checkPermits(ctx context.Context, q config.Queue) []string {
	if NewLayout(q).Cap == 0 {
		return nil
	}
	owner := "queue " + q.Name
	name := c.names.Slots(q.Name)
	info, err := c.inspect(ctx, name)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s: may not look at stream %s: %s", owner, name, c.why("$JS.API.STREAM.INFO."+name, err))}
	case info == nil:
		return c.tries(ctx, owner, []try{{
			what: "make its stream " + name + ", which does not exist (run setup with an identity that may)", subject: "$JS.API.STREAM.CREATE." + name,
			body: refused,
		}})
	}
	nobodys := c.names.slotPrefix(q.Name) + unkeyedToken + ".0.fairlead-checks-access"
	purge, err := json.Marshal(map[string]string{"filter": nobodys}) // there is none
	if err != nil {
		return []string{owner + ": " + err.Error()}
	}
	return c.tries(ctx, owner, []try{
		{what: "claim permits", subject: nobodys, header: elsewhere},
		{what: "look at permits", subject: "$JS.API.STREAM.MSG.GET." + name, body: refused},
		{what: "give permits back", subject: "$JS.API.STREAM.MSG.DELETE." + name, body: refused},
		{what: "remove permits of agents that are gone", subject: "$JS.API.STREAM.PURGE." + name, body: string(purge)},
	})
}
