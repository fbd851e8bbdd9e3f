package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// traffic is a publisher that goes on through every fault, on the sockets of the agents in turn: it repeats each message
// under its id until it is told that it was stored, and counts what it was told otherwise.
type traffic struct {
	t      *testing.T
	log    *history.Log
	queue  string
	name   string // of its messages
	agents []*member
	keys   int           // tenants; 0 is none
	every  time.Duration // between two messages

	end   context.CancelFunc
	done  chan struct{}
	quits chan struct{} // closed when the test is over: what is not stored then never will be

	mu   sync.Mutex
	told map[string]int // refusals, by code; "no answer" when the agent is away
}

// publishTo starts traffic into a queue. It ends with stop, or with the test.
func publishTo(t *testing.T, log *history.Log, queue string, keys int, every time.Duration, agents ...*member) *traffic {
	t.Helper()
	return publishAs(t, log, queue, queue, keys, every, agents...)
}

// publishAs is publishTo for several publishers into one queue.
func publishAs(t *testing.T, log *history.Log, name, queue string, keys int, every time.Duration, agents ...*member) *traffic {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	p := &traffic{t: t, log: log, queue: queue, name: name, agents: agents, keys: keys, every: every, end: end, done: make(chan struct{}), quits: make(chan struct{}), told: map[string]int{}}
	go p.run(ctx)
	t.Cleanup(func() {
		close(p.quits)
		p.stop()
	})
	return p
}

// stop ends the traffic; the last message is stored then.
func (p *traffic) stop() {
	p.end()
	<-p.done
}

func (p *traffic) run(ctx context.Context) {
	defer close(p.done)
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%06d", p.name, i)
		headers := []string{api.HeaderID, id}
		if p.keys > 0 {
			headers = append(headers, api.HeaderKey, fmt.Sprint("tenant", i%p.keys), api.HeaderPriority, fmt.Sprint(i%3))
		}
		for try := 0; !p.publish(p.agents[(i+try)%len(p.agents)], id, headers); try++ {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-p.quits:
				return
			}
		}
		p.log.Stored(p.queue, id)
		select {
		case <-time.After(p.every):
		case <-ctx.Done():
		}
	}
}

// publish tries once.
func (p *traffic) publish(m *member, id string, headers []string) (stored bool) {
	code := p.ask(m, id, headers)
	p.mu.Lock()
	defer p.mu.Unlock()
	if code != "" {
		p.told[code]++
	}
	return code == ""
}

func (p *traffic) ask(m *member, id string, headers []string) (refusal string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a := m.now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/queues/"+p.queue+"/messages", bytes.NewReader([]byte(id)))
	if err != nil {
		return err.Error()
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := a.http.Do(request)
	if err != nil {
		return "no answer"
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusCreated {
		_, _ = io.Copy(io.Discard, answer.Body)
		return ""
	}
	var body api.ErrorBody
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Error == nil {
		return "unreadable answer " + answer.Status
	}
	return string(body.Error.Code)
}

// refusals is what the publisher was told, by code.
func (p *traffic) refusals() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := map[string]int{}
	for code, n := range p.told {
		told[code] = n
	}
	return told
}
