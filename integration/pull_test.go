package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// An app is one keep-alive client of a capsule: it pulls, and settles in the body of its next pull.
type app struct {
	a       *agent
	t       *testing.T
	client  *http.Client
	capsule string
	query   string           // further parameters of a pull, each with a leading &
	settle  []api.Settlement // of the next body
	failed  []api.SettleResult
	state   string // Fairlead-State of the last answer
}

func (a *agent) app(capsule string) *app {
	return &app{a: a, t: a.t, client: a.client(), capsule: capsule}
}

// pull asks for up to most messages and waits up to wait for the first. It returns none after a 204.
func (p *app) pull(most int, wait time.Duration) []api.Delivery {
	p.t.Helper()
	all, err := p.tryPull(most, wait)
	if err != nil {
		p.t.Fatalf("pull: %v", err)
	}
	return all
}

// tryPull is pull for goroutines, and for agents that may be gone. What it was to settle is kept after an error.
func (p *app) tryPull(most int, wait time.Duration) ([]api.Delivery, error) {
	var body []byte
	if len(p.settle) > 0 {
		body, _ = json.Marshal(p.settle)
	}
	path := fmt.Sprintf("/v1/capsules/%s/pull?max=%d&wait=%s%s", p.capsule, most, seconds(wait), p.query)
	answer, text, err := p.a.call(p.client, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNoContent {
		return nil, fmt.Errorf("%s %s", answer.Status, text)
	}
	p.settle, p.state = nil, answer.Header.Get(api.HeaderState)
	var all []api.Delivery
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var line struct {
			api.Delivery
			api.SettleFailed
		}
		if err := lines.Decode(&line); err != nil {
			return nil, fmt.Errorf("%w in %q", err, text)
		}
		if line.SettleFailed.SettleFailed != nil {
			p.failed = append(p.failed, line.SettleFailed.SettleFailed...)
			continue
		}
		all = append(all, line.Delivery)
	}
	return all, nil
}

// ack notes messages as done, for the next pull's body.
func (p *app) ack(all ...api.Delivery) {
	for _, d := range all {
		p.settle = append(p.settle, api.Settlement{Token: d.Token, Result: api.Ack})
	}
}

// take pulls most at a time and acks everything, until n messages came, and returns them in order.
func (p *app) take(n, most int) []api.Delivery {
	p.t.Helper()
	var all []api.Delivery
	for len(all) < n {
		got := p.pull(min(most, n-len(all)), patience)
		if len(got) == 0 {
			p.t.Fatalf("nothing came for %v after %d of %d messages", patience, len(all), n)
		}
		p.ack(got...)
		all = append(all, got...)
	}
	p.flush()
	return all
}

// hold pulls until n messages are in the app's hands, and settles none of them: one pull may bring fewer than there are.
func (p *app) hold(n int) []api.Delivery {
	p.t.Helper()
	var all []api.Delivery
	for len(all) < n {
		got := p.pull(n-len(all), patience)
		if len(got) == 0 {
			p.t.Fatalf("nothing came for %v after %d of %d messages", patience, len(all), n)
		}
		all = append(all, got...)
	}
	return all
}

// flush says what is left to be settled; every settlement must be ok.
func (p *app) flush() {
	p.t.Helper()
	for _, r := range p.a.settle(p.settle...) {
		if r.Status != api.StatusOK {
			p.t.Errorf("settlement of %s: %s", r.Token, r.Status)
		}
	}
	p.settle = nil
	for _, f := range p.failed {
		p.t.Errorf("settlement of %s failed: %s", f.Token, f.Status)
	}
}

// settle settles at once.
func (a *agent) settle(all ...api.Settlement) []api.SettleResult {
	a.t.Helper()
	if len(all) == 0 {
		return nil
	}
	body, err := json.Marshal(all)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, text, err := a.call(a.http, http.MethodPost, "/v1/settle", body)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("settle: %v %s %s", err, status(answer), text)
	}
	var response api.SettleResponse
	if err := json.Unmarshal(text, &response); err != nil || len(response.Results) != len(all) {
		a.t.Fatalf("settle of %d: %v %s", len(all), err, text)
	}
	return response.Results
}

// say settles one delivery and returns what became of it.
func (a *agent) say(d api.Delivery, s api.Settlement) api.Status {
	a.t.Helper()
	s.Token = d.Token
	return a.settle(s)[0].Status
}

// empty checks that nothing is left to deliver.
func (p *app) empty() {
	p.t.Helper()
	if got := p.pull(64, 0); len(got) > 0 {
		p.t.Errorf("there is more to deliver: %q", data(got))
	}
}
