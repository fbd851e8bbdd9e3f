package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the agent, its capsules and its peers",
		Example: `  fairlead status
  fairlead status -o json | jq .broker.connected`,
		Args: cobra.NoArgs,
	}
	socket, output := a.addSocketFlag(command), addOutputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		status, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.AgentStatus, error) { return c.Status(ctx) })
		if err != nil {
			return err
		}
		return show(a, output, status, printStatus)
	}
	return command
}

func printStatus(w io.Writer, s *api.AgentStatus) error {
	t := newTable(w, "agent", fmt.Sprintf("%s, %s, up %s, version %s, pid %d", s.Agent, s.State, seconds(s.UptimeSeconds), s.Version, s.PID))
	t.row("broker", brokerLine(&s.Broker))
	for _, warning := range s.Warnings {
		t.row("warning", warning)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "CAPSULE", "CONCURRENCY", "IN FLIGHT", "CREDIT", "DELIVERED", "LANE PULLS", "EMPTY", "QUEUES")
	for i := range s.Capsules {
		c := &s.Capsules[i]
		t.row(c.Name, c.Concurrency, c.InFlight, c.Credit, c.Delivered, c.LanePulls, c.EmptyPulls, capsuleQueues(c.Queues))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := printReasons(w, s.Capsules); err != nil || len(s.Peers) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "PEER", "CAPSULE", "PRIORITY", "DEMAND", "HEARD", "QUEUES")
	for _, p := range s.Peers {
		heard := time.Duration(p.AgeSeconds * float64(time.Second)).Round(100 * time.Millisecond)
		t.row(p.Agent, p.Capsule, p.ConsumerPriority, yesNo(p.Demand), heard.String()+" ago", strings.Join(p.Queues, ", "))
	}
	return t.flush()
}

func brokerLine(b *api.BrokerStatus) string {
	var s strings.Builder
	if b.Connected {
		s.WriteString("connected")
	} else {
		s.WriteString("not connected")
	}
	if b.Embedded {
		s.WriteString(", embedded")
	}
	if b.URL != "" {
		s.WriteString(", " + b.URL)
	}
	if b.Server != "" {
		s.WriteString(", " + b.Server)
	}
	if b.Reconnects > 0 {
		fmt.Fprintf(&s, ", reconnected %d×", b.Reconnects)
	}
	if !b.Connected && b.LastError != "" {
		s.WriteString(": " + b.LastError)
	}
	return s.String()
}

// capsuleQueues lists queues in their order, each with what is special about it now.
func capsuleQueues(queues []api.CapsuleQueue) string {
	names := make([]string, len(queues))
	for i, q := range queues {
		var notes []string
		if q.Paused {
			notes = append(notes, "paused")
		}
		if q.PausedKeys > 0 {
			notes = append(notes, count(q.PausedKeys, "key")+" paused")
		}
		if q.BacksOff {
			notes = append(notes, "backs off")
		}
		if q.Lease != "" {
			notes = append(notes, "lease: "+leaseNote(&q))
		}
		names[i] = q.Name
		if len(notes) > 0 {
			names[i] += " (" + strings.Join(notes, ", ") + ")"
		}
	}
	return strings.Join(names, " > ")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// leaseNote is the capsule's part in a queue with a single active consumer.
func leaseNote(q *api.CapsuleQueue) string {
	if q.Lease != api.LeaseHolder && q.Lease != api.LeaseHandingOver {
		return strings.ReplaceAll(q.Lease, "_", " ")
	}
	return fmt.Sprintf("%s, fence %d, for %s", strings.ReplaceAll(q.Lease, "_", " "), q.Fence, seconds(q.LeaseAgeSeconds))
}

// printReasons says, a line each, why capsules do not work on queues.
func printReasons(w io.Writer, capsules []api.CapsuleStatus) error {
	var lines [][]any
	for _, c := range capsules {
		for _, q := range c.Queues {
			if q.Why != "" {
				lines = append(lines, []any{c.Name, q.Name, q.Why})
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w, "CAPSULE", "QUEUE", "DOES NOT WORK ON IT BECAUSE")
	for _, line := range lines {
		t.row(line...)
	}
	return t.flush()
}
