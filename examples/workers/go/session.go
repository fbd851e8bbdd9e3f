package main

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// open begins a session, which lasts as long as its connection.
func open() (connection io.Closer, id string, err error) {
	answer, err := client.Get("http://agent/v1/session")
	if err != nil {
		return nil, "", err
	}
	var first struct{ Session string }
	err = json.NewDecoder(answer.Body).Decode(&first)
	go io.Copy(io.Discard, answer.Body)
	return answer.Body, first.Session, err
}

// extend runs beside the work, until stop is closed: a job that outlasts its lease is still ours.
func extend(batch []message, stop <-chan struct{}) {
	var all []settlement
	for _, m := range batch {
		all = append(all, settlement{Token: m.Token, Result: "extend"})
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(lease / 3):
			_, _ = post(context.Background(), "/v1/settle", all)
		}
	}
}
