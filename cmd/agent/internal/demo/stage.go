package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// Stage is where a demo happens.
type Stage struct {
	Client  *client.Client
	Queue   string
	Capsule string
	Out     io.Writer
	Colour  bool // escape sequences may be written
}

// tenant is who publishes.
type tenant struct {
	name   string
	weight string // as published
	share  int64  // the same, in thousandths
	colour string
}

// message is one of the backlog.
type message struct {
	level  int
	tenant int
}

// publish stores messages in their order, in one batch.
func (s *Stage) publish(ctx context.Context, tenants []tenant, messages []message) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i, m := range messages {
		line := api.BatchMessage{
			Data:     json.RawMessage(strconv.Quote(fmt.Sprintf("job %d", i))),
			Priority: json.RawMessage(strconv.Itoa(m.level)),
			Key:      tenants[m.tenant].name,
			Weight:   json.RawMessage(tenants[m.tenant].weight),
		}
		if err := encoder.Encode(line); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return s.Client.PublishBatch(ctx, s.Queue, &lines, func(l client.BatchLine) error {
		if l.Result.Error != nil {
			return fmt.Errorf("demo: message %d: %w", l.Line, l.Result.Error)
		}
		return nil
	})
}

// work takes n messages with pulls of size, acknowledges them, and returns them in the order of delivery.
func (s *Stage) work(ctx context.Context, tenants []tenant, n, size int) ([]message, error) {
	index := map[string]int{}
	for i, t := range tenants {
		index[t.name] = i
	}
	var order []message
	var settle []api.Settlement
	for len(order) < n {
		got, err := s.Client.Pull(ctx, client.PullRequest{
			Capsule: s.Capsule, Max: min(size, n-len(order)), Wait: 2 * time.Second, Settle: settle,
		})
		switch {
		case err != nil:
			return order, err
		case len(got.SettleFailed) > 0:
			return order, fmt.Errorf("demo: an acknowledgement was answered with %s", got.SettleFailed[0].Status)
		case len(got.Deliveries) == 0:
			return order, fmt.Errorf("%w: %d of %d", ErrMissing, n-len(order), n)
		}
		settle = settle[:0]
		for i := range got.Deliveries {
			d := &got.Deliveries[i]
			t, ok := index[d.Key]
			if !ok {
				return order, fmt.Errorf("demo: a message of %q came: somebody else uses this queue", d.Key)
			}
			order = append(order, message{level: d.Priority, tenant: t})
			settle = append(settle, api.Settlement{Token: d.Token, Result: api.Ack})
		}
	}
	results, err := s.Client.Settle(ctx, settle)
	for _, r := range results {
		if r.Status != api.StatusOK {
			return order, fmt.Errorf("demo: an acknowledgement was answered with %s", r.Status)
		}
	}
	return order, err
}

func (s *Stage) printf(format string, args ...any) { fmt.Fprintf(s.Out, format, args...) }

// paint colours text on a terminal.
func (s *Stage) paint(colour, text string) string {
	if !s.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// bar draws value of 1 as width cells.
func bar(value float64, width int) string {
	n := min(max(int(value*float64(width)+0.5), 0), width)
	return strings.Repeat("█", n) + strings.Repeat("·", width-n)
}
