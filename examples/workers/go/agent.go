package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

type settlement struct {
	Token  string `json:"token"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

var client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
	socket := cmp.Or(os.Getenv("FAIRLEAD_SOCKET"), "/run/fairlead/agent.sock")
	return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
}}}

func post(ctx context.Context, path string, settled []settlement) (batch []message, err error) {
	body, _ := json.Marshal(append([]settlement{}, settled...))
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, bytes.NewReader(body))
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s", answer.Status, text)
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); err == nil && lines.More(); {
		var m message
		if err = lines.Decode(&m); m.Failed != nil {
			log.Printf("not settled: %s", m.Failed)
		} else if m.Token != "" {
			batch = append(batch, m)
		}
	}
	return batch, err
}

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
