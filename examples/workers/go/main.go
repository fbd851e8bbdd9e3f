// Command go is a Fairlead worker. Copy the folder, write your own handle, run it as: go run . [CAPSULE]
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type message struct {
	Token, Queue, Key, Data string
	Priority, Attempt       int
	Binary                  []byte       `json:"data_base64"`   // instead of Data when the payload is not UTF-8
	Failed                  []settlement `json:"settle_failed"` // a first line may have this, and is no message then
}

// handle is your work: return nil when it is done, an error to have it tried again later.
func handle(m message) error {
	_, err := fmt.Printf("%s p%d %s: %s%s\n", m.Queue, m.Priority, cmp.Or(m.Key, "-"), m.Data, m.Binary)
	return err
}

var lease, _ = time.ParseDuration(cmp.Or(os.Getenv("WORKER_LEASE"), "60") + "s")

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	var settled []settlement
	for pause := time.Second / 10; stop.Err() == nil; pause = min(2*pause, 5*time.Second) {
		if err := serve(stop, &settled, &pause); err != nil { // the agent restarts, and gives the work out again
			log.Print("agent: ", err)
			time.Sleep(pause)
		}
	}
}

// serve works in one session, until stop ends or the agent goes away. Settlements that got no answer stay in settled.
func serve(stop context.Context, settled *[]settlement, pause *time.Duration) error {
	session, id, err := open()
	if err != nil {
		return err
	}
	defer session.Close() // what we still hold then goes to others
	path := "/v1/capsules/" + append(os.Args, "default")[1] + "/pull?max=8&wait=30s&lease=" + lease.String() + "&session=" + id
	for {
		batch, err := post(stop, path, *settled)
		if stop.Err() != nil { // a pull that only waits is given up
			_, err = post(context.Background(), "/v1/settle", *settled)
			return err
		} else if err != nil {
			return err
		}
		again := []settlement{}
		if len(batch) > 0 && batch[0].Failed != nil {
			again, batch = unknown(*settled, batch[0].Failed), batch[1:]
		}
		*settled, *pause = append(again, work(batch)...), time.Second/10
	}
}

func work(batch []message) (settled []settlement) {
	finished := make(chan struct{})
	defer close(finished)
	go extend(batch, finished)
	for _, m := range batch {
		s := settlement{Token: m.Token, Result: "ack"}
		if err := handle(m); err != nil { // no delay given: the queue's backoff says when it comes again
			s.Result, s.Reason = "nack", err.Error()
		}
		settled = append(settled, s)
	}
	return settled
}
