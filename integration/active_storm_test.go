package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// storm is what happens to three agents on an ordered queue in a drawn order.
type storm struct {
	t       *testing.T
	rng     *rand.Rand
	server  *natsServer
	log     *history.Log
	members []*member
	links   []*link
}

// TestAnOrderedQueueInAStorm kills, stops, pauses and cuts off whatever there is, one thing after the other, while somebody
// publishes and apps fail now and then. Nothing is lost, nothing comes out of order, never two work, and in the end all is done.
// FAIRLEAD_STORM is another seed.
func TestAnOrderedQueueInAStorm(t *testing.T) {
	slow(t)
	t.Parallel()
	for _, seed := range []uint64{1, 2} {
		if s, err := strconv.ParseUint(os.Getenv("FAIRLEAD_STORM"), 10, 64); err == nil {
			seed += 2 * s
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := &storm{t: t, rng: rand.New(rand.NewPCG(seed, 1)), server: startNATS(t), log: history.New()}
			s.run(40)
		})
	}
}

func (s *storm) run(steps int) {
	t := s.t
	for i, priority := range []int{0, 0, 5} {
		l := s.server.link(t)
		cfg := ordered(s.server, string(rune('a'+i)), ", retry: {max_attempts: 0}", fmt.Sprintf(", consumer_priority: %d", priority))
		cfg.nats = l.url
		s.links = append(s.links, l)
		s.members = append(s.members, join(t, s.log, cfg, s.moody(uint64(i))))
	}
	ctx, end := context.WithCancel(t.Context())
	published := make(chan struct{})
	go func() { s.publish(ctx); close(published) }()
	for range steps {
		time.Sleep(s.between(0, 1500*time.Millisecond))
		s.step()
	}
	end()
	<-published
	last := s.log.Now()
	total := len(s.log.History().Stored)
	s.calm(last)
	t.Logf("%d messages, %d hand-overs, done %v after the storm", total, len(s.log.History().Hands), s.log.Now()-last)
	finish(t, s.server, s.log, s.members...)
}

// calm waits until everything is handled. Once the storm is over, work never rests for longer than a takeover.
func (s *storm) calm(from time.Duration) {
	s.t.Helper()
	for s.members[0].queue("jobs").Waiting+s.members[0].queue("jobs").InFlight+s.members[0].queue("jobs").Delayed > 0 {
		now := s.log.Now()
		hands := s.log.History().Hands
		if idle := now - max(from, hands[len(hands)-1].Got); idle > 3*leaseTTL {
			for _, m := range s.members {
				s.t.Logf("%s: %+v, %+v", m.name, m.capsule("main"), m.queue("jobs"))
			}
			s.t.Fatalf("%v after the storm nobody has had anything for %v", now-from, idle)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// moody handles most messages in a moment; some fail, some take long.
func (s *storm) moody(seed uint64) habits {
	rng := rand.New(rand.NewPCG(seed, 2))
	return habits{handle: func(ctx context.Context, d api.Delivery) api.Settlement {
		life := time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
		if rng.IntN(100) == 0 {
			life = 300 * time.Millisecond
		}
		select {
		case <-time.After(life):
		case <-ctx.Done():
		}
		if d.Attempt < 3 && rng.IntN(15) == 0 {
			return api.Settlement{Result: api.Nack, Delay: seconds(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))}
		}
		return api.Settlement{Result: api.Ack}
	}}
}

// publish stores numbered messages, each until it is confirmed.
func (s *storm) publish(ctx context.Context) {
	js, err := jetstream.New(s.server.connect())
	if err != nil {
		s.t.Error(err)
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("m%05d", i)
		for {
			try, end := context.WithTimeout(context.Background(), time.Second)
			_, err := js.Publish(try, "fl.q.jobs.d._", []byte(id), jetstream.WithMsgID(id))
			end()
			if err == nil {
				s.log.Stored("jobs", id)
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// step does something to somebody, and mends it.
func (s *storm) step() {
	i := s.rng.IntN(len(s.members))
	if s.rng.IntN(2) == 0 { // the one at work
		hands := s.log.History().Hands
		for j, m := range s.members {
			if len(hands) > 0 && hands[len(hands)-1].Agent == m.name {
				i = j
			}
		}
	}
	m, l := s.members[i], s.links[i]
	what, d := s.rng.IntN(9), s.between(100*time.Millisecond, 2*leaseTTL)
	s.t.Logf("%v: %d on %s, %v", s.log.Now().Round(time.Millisecond), what, m.name, d.Round(time.Millisecond))
	switch what {
	case 0:
		m.signal(syscall.SIGTERM)
		m.wait(patience)
		m.app.crash()
		m.again()
	case 1:
		m.kill()
		m.app.crash()
		time.Sleep(s.between(0, leaseTTL))
		m.again()
	case 2:
		m.signal(syscall.SIGSTOP)
		time.Sleep(d)
		m.signal(syscall.SIGCONT)
	case 3:
		m.app.crash()
		time.Sleep(d / 4)
		m.app = m.work(s.log, m.h)
	case 4:
		s.server.kill()
		time.Sleep(d / 2)
		s.server.start()
	case 5:
		s.server.signal(syscall.SIGSTOP)
		time.Sleep(d / 2)
		s.server.signal(syscall.SIGCONT)
	case 6:
		l.set([]linkState{{toServer: true}, {toAgent: true}, {toServer: true, toAgent: true}}[s.rng.IntN(3)])
		time.Sleep(d)
		l.set(linkState{})
	case 7:
		l.set(linkState{refused: true})
		l.reset()
		time.Sleep(d)
		l.set(linkState{})
	case 8:
		js, err := jetstream.New(s.server.connect())
		if err != nil {
			s.t.Fatal(err)
		}
		injected(s.t, "deleted", "bucket")
		if err := js.DeleteKeyValue(s.t.Context(), "fairlead"); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(d / 4)
		if _, stderr, code := command(s.t, nil, "setup", "--config", filepath.Join(m.dir, "fairlead.yaml")); code != 0 {
			s.t.Fatalf("setup: exit code %d: %s", code, stderr)
		}
	}
}
