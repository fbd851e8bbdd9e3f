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
	"slices"
	"strings"
)

type settlement struct {
	Token  string `json:"token"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	Status string `json:"status,omitempty"` // of an answer
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
		if err = lines.Decode(&m); m.Failed != nil || m.Token != "" {
			batch = append(batch, m)
		}
	}
	return batch, err
}

// unknown are the settlements that are not known to be done: they are said again.
func unknown(settled, failed []settlement) []settlement {
	log.Printf("not settled: %+v", failed)
	return slices.DeleteFunc(settled, func(s settlement) bool {
		return !slices.Contains(failed, settlement{Token: s.Token, Status: "unavailable"})
	})
}
