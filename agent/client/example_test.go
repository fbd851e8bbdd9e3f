package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// start stands in for an agent beside this container.
func start() (*clienttest.Agent, func()) {
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		panic(err)
	}
	a, err := clienttest.Start(filepath.Join(dir, "agent.sock"))
	if err != nil {
		panic(err)
	}
	return a, func() { a.Stop(); _ = os.RemoveAll(dir) }
}

// A worker takes several deliveries at a time, and settles them with its next pull.
func ExampleClient_Pull() {
	agent, stop := start()
	defer stop()
	ctx := context.Background()
	c := client.New(agent.Socket)
	defer c.Close()

	for _, m := range []client.Message{
		{Data: []byte("monthly report"), Key: "acme", Priority: "low"},
		{Data: []byte("invoice"), Key: "acme", Priority: "high"},
		{Data: []byte("refund"), Key: "globex", Priority: "high"},
	} {
		if _, err := c.Publish(ctx, "default", m); err != nil {
			fmt.Println(err)
			return
		}
	}

	var settle []api.Settlement
	for {
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: 2, Lease: time.Minute, Settle: settle})
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(got.Deliveries) == 0 {
			return
		}
		settle = settle[:0]
		for _, d := range got.Deliveries {
			fmt.Printf("level %d, %s: %s\n", d.Priority, d.Key, d.Payload())
			settle = append(settle, api.Settlement{Token: d.Token, Result: api.Ack})
		}
	}
	// Output:
	// level 0, acme: invoice
	// level 0, globex: refund
	// level 2, acme: monthly report
}

func ExampleClient_PublishBatch() {
	agent, stop := start()
	defer stop()
	c := client.New(agent.Socket)
	defer c.Close()

	lines := strings.NewReader(`{"data":"one","key":"acme"}
{"data":"two","priority":"urgent"}
{"data":{"three":3},"key":"globex"}
`)
	err := c.PublishBatch(context.Background(), "default", lines, func(l client.BatchLine) error {
		if l.Result.Error != nil {
			fmt.Printf("line %d: %s\n", l.Line, l.Result.Error.Code)
			return nil
		}
		fmt.Printf("line %d: stored\n", l.Line)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// line 1: stored
	// line 2: priority_out_of_range
	// line 3: stored
}
