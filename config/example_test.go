package config_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/config"
)

// A file names its servers, its queues, and which queues an app works through.
func ExampleParse() {
	c, warnings, err := config.Parse("fairlead.yaml", []byte(`
nats: {url: nats://nats:4222}
queues:
  - name: orders
    priority_levels: [high, medium, low]
    fair_share: {weights: {acme: 3}}
capsules:
  - name: primary
    queues: [orders]
    concurrency: ${WORKERS:-20}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		fmt.Println(err)
		return
	}
	q := c.Queues[0]
	fmt.Println(q.Levels, q.DefaultPriority, q.FairShare.Weights["acme"], q.AckWait)
	fmt.Println(c.Capsules[0].Concurrency, len(warnings))
	// Output:
	// 3 1 3 30s
	// 20 0
}

// All problems are told at once, each with its place.
func ExampleInvalid() {
	_, _, err := config.Parse("fairlead.yaml", []byte(`
nats: {url: nats://nats:4222}
queues:
  - name: orders
    ack_wait: 30
    priority_level: 3
`), nil)
	var invalid *config.Invalid
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// fairlead.yaml:5:15: queues[0].ack_wait: a time needs a unit: write 30s for seconds
	// fairlead.yaml:6:5: queues[0].priority_level: unknown key: did you mean priority_levels?
}

func ExampleQueue_LevelByName() {
	q := config.Dev("/tmp/fairlead").Queues[0]
	fmt.Println(q.LevelByName("low"))
	fmt.Println(q.LevelByName("0"))
	fmt.Println(q.LevelByName("urgent"))
	// Output:
	// 2 true
	// 0 true
	// 0 false
}

// A definition is stored as JSON with the keys of the YAML file.
func ExampleQueue_MarshalJSON() {
	q := config.Dev("/tmp/fairlead").Queues[0]
	stored, err := json.Marshal(q)
	if err != nil {
		fmt.Println(err)
		return
	}
	var again config.Queue
	if err := json.Unmarshal(stored, &again); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Name, again.LevelNames, again.Hash() == q.Hash())
	// Output:
	// default [high medium low] true
}
