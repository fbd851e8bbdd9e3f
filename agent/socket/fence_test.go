package socket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// grant trusts its tenure as often as it is asked, up to a number of times; and for an hour, unless it says for how long.
type grant struct {
	times atomic.Int64
	until atomic.Pointer[time.Time]
	// renewed makes each end that is asked for a new one, a moment later; asked counts them.
	renewed atomic.Bool
	asked   atomic.Int64
}

func (g *grant) Trusted(time.Time) (uint64, bool) { return 42, g.times.Add(-1) >= 0 }
func (g *grant) Held(time.Time) (uint64, bool)    { return 42, true }

func (g *grant) ValidUntil() time.Time {
	g.asked.Add(1)
	if g.renewed.Load() {
		return time.Now().Add(50 * time.Millisecond)
	}
	if at := g.until.Load(); at != nil {
		return *at
	}
	return time.Now().Add(time.Hour)
}

func (g *grant) end(in time.Duration) {
	at := time.Now().Add(in)
	g.until.Store(&at)
	g.renewed.Store(false)
}

func fenced(seq uint64, times int64) *broker.Message {
	g := &grant{}
	g.times.Store(times)
	return g.message(seq)
}

func (g *grant) message(seq uint64) *broker.Message {
	m := message(seq)
	m.Lane = &broker.Lane{Layout: broker.Layout{Queue: m.Queue, Single: true, Tenure: broker.NewTenure(42, g)}}
	return m
}

// Deliveries of a queue with a single active consumer carry its fence, in every format.
func TestFence(t *testing.T) {
	r := newRig(t)
	r.add(fenced(1, 99), message(2))
	ds := lines(t, r.call("POST", pullPath+"?max=2&wait=5s", ""))
	if len(ds) != 2 || ds[0].Fence != 42 || ds[1].Fence != 0 {
		t.Errorf("%d deliveries: %+v", len(ds), ds)
	}
	r.add(fenced(3, 99))
	if a := r.call("POST", "/v1/capsules/work/next?wait=5s", ""); a.Header.Get("Fairlead-Fence") != "42" {
		t.Errorf("fence %q in a header", a.Header.Get("Fairlead-Fence"))
	}
}

// A tenure that ends between the hand-over and the writing: what is of it is not written, and goes back; the rest is.
func TestNothingIsWrittenWithoutTrust(t *testing.T) {
	r := newRig(t)
	r.add(fenced(1, 1), message(2))
	if ds := lines(t, r.call("POST", pullPath+"?max=2&wait=5s", "")); len(ds) != 1 || ds[0].Seq != 2 {
		t.Errorf("written: %+v", ds)
	}
	eventually(t, "it went back", func() bool { return len(r.gaveBack()) == 1 && r.gaveBack()[0].seq == 1 })
	if back := r.gaveBack()[0]; back.counts != broker.NotAnAttempt {
		t.Errorf("it counts as an attempt: %+v", back)
	}
	r.add(fenced(3, 1))
	if a := r.call("POST", "/v1/capsules/work/next?wait=5s", ""); a.StatusCode != 204 {
		t.Errorf("next: %d", a.StatusCode)
	}
	// Never trusted: not even handed out, and the pull goes on to wait.
	r.add(fenced(4, 0), message(5))
	if ds := lines(t, r.call("POST", pullPath+"?wait=5s", "")); len(ds) != 1 || ds[0].Seq != 5 {
		t.Errorf("behind one without trust: %+v", ds)
	}
}

// An answer that is written in pieces, to an app that reads slowly: each piece is looked at when its turn has come. What is
// written already stays, and what has nothing to do with the tenure is written all the same.
func TestEachPieceIsWrittenWithTrust(t *testing.T) {
	big := func(seq uint64) *broker.Message {
		m := message(seq)
		m.Data = []byte(strings.Repeat("x", wholeAnswer))
		return m
	}
	for name, tt := range map[string]struct {
		messages []*broker.Message
		want     []uint64
		back     []uint64
	}{
		// Trust is asked for at the hand-over, before the first piece, and before its own.
		"in the last piece":      {[]*broker.Message{big(1), message(2), fenced(3, 2), message(4)}, []uint64{1, 2, 4}, []uint64{3}},
		"in the middle":          {[]*broker.Message{big(1), fenced(2, 2), big(3), message(4)}, []uint64{1, 3, 4}, []uint64{2}},
		"trusted in each":        {[]*broker.Message{big(1), fenced(2, 3), big(3), message(4)}, []uint64{1, 2, 3, 4}, nil},
		"it was written already": {[]*broker.Message{fenced(1, 2), big(2), big(3), message(4)}, []uint64{1, 2, 3, 4}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(tt.messages...)
			var got []uint64
			for _, d := range lines(t, r.call("POST", pullPath+"?max=9&wait=5s", "")) {
				got = append(got, d.Seq)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("written: %v, want %v", got, tt.want)
			}
			eventually(t, "the rest went back", func() bool { return len(r.gaveBack()) == len(tt.back) })
			for i, back := range r.gaveBack() {
				if back.seq != tt.back[i] || back.counts != broker.NotAnAttempt {
					t.Errorf("given back: %+v", back)
				}
			}
		})
	}
}

// slowly asks for one big message of a tenure that is renewed again and again, and reads the beginning of the answer only.
func slowly(t *testing.T, r *rig, g *grant, path string) (c net.Conn, rest io.Reader) {
	t.Helper()
	g.times.Store(99)
	g.renewed.Store(true)
	m := g.message(1)
	m.Data = []byte(strings.Repeat("x", 6<<20))
	r.add(m)
	c = r.dial()
	t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	first := make([]byte, 100)
	if _, err := io.ReadFull(c, first); err != nil {
		t.Fatal(err)
	}
	return c, io.MultiReader(bytes.NewReader(first), c)
}

// A big message to an app that reads slowly: when trust ends in the middle of it, nothing more is written, the app can see that
// the answer has no end, and the message goes back.
func TestAnAnswerIsBrokenOffWhenTrustEnds(t *testing.T) {
	for _, path := range []string{pullPath + "?wait=5s", "/v1/capsules/work/next?wait=5s"} {
		r := newRig(t)
		g := &grant{}
		_, answer := slowly(t, r, g, path)
		g.end(0)
		eventually(t, "it went back", func() bool { return len(r.gaveBack()) == 1 })
		if back := r.gaveBack()[0]; back.seq != 1 || back.counts != broker.NotAnAttempt {
			t.Errorf("%s: given back: %+v", path, back)
		}
		if all, err := io.ReadAll(answer); err != nil && !errors.Is(err, syscall.ECONNRESET) || len(all) >= 6<<20 {
			t.Errorf("%s: %d bytes were written, %v", path, len(all), err)
		}
	}
}

// The same app, as long as the lease is renewed: it gets the whole message.
func TestASlowAppGetsItsAnswerWhileTheLeaseIsRenewed(t *testing.T) {
	r := newRig(t)
	g := &grant{}
	c, answer := slowly(t, r, g, pullPath+"?wait=5s")
	eventually(t, "trust has ended, and was renewed, several times", func() bool { return g.asked.Load() > 5 })
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(answer)
	if ds := readLines(t, in); len(ds) != 1 || len(*ds[0].Data) != 6<<20 {
		t.Errorf("%d deliveries", len(ds))
	}
	if len(r.gaveBack()) != 0 {
		t.Errorf("given back: %+v", r.gaveBack())
	}
	// The connection is no tenure's any more.
	g.end(0)
	fmt.Fprint(c, "POST /v1/settle HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]")
	if next, err := http.ReadResponse(in, nil); err != nil || next.StatusCode != http.StatusOK {
		t.Errorf("the next answer on the connection: %+v, %v", next, err)
	}
}

// readLines reads one answer of a pull.
func readLines(t *testing.T, in *bufio.Reader) []api.Delivery {
	t.Helper()
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return lines(t, answer{response, string(body)})
}
