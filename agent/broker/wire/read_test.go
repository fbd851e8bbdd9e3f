package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/rights"
)

// The larger the messages of a server may be, the longer a slow link may take for one. (A server that knows no JetStream stands
// for the link: its answers come as late as the test likes.)
func TestALargeMessageMayTakeLonger(t *testing.T) {
	for name, c := range map[string]struct {
		maxPayload int32
		want       error
	}{
		"8 MiB": {8 << 20, nil},
		"1 KiB": {1 << 10, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true, MaxPayload: c.maxPayload})
			if err != nil {
				t.Fatal(err)
			}
			s.Start()
			defer s.WaitForShutdown()
			defer s.Shutdown()
			nc, err := nats.Connect("", nats.InProcessServer(s))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			w, err := New(nc, func(rights.Direction, string) rights.Permission { return rights.Permission{} })
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, err := nc.Subscribe("$JS.API.STREAM.MSG.GET.S", func(m *nats.Msg) {
				time.AfterFunc(AnswerWait+AnswerWait/2, func() { _ = m.Respond([]byte(`{"message":{"subject":"s","seq":7,"data":"eA=="}}`)) })
			}); err != nil {
				t.Fatal(err)
			}
			m, err := w.Read(t.Context(), "S", Look{Seq: 7})
			if !errors.Is(err, c.want) || (m != nil) != (c.want == nil) {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
}

// heavy is a request that says how large it is; it need not be.
type heavy struct{ request }

func (h *heavy) Bytes() int { return 1 << 30 }

// So may a large message that is written, and nothing else for its sake.
func TestALargeRequestMayTakeLonger(t *testing.T) {
	nc := connect(t)
	e := newEcho(t, nc, "echo")
	q := newTestRequester(t, nc, 2, 200*time.Millisecond)
	small, large := make(chan error, 1), make(chan error, 1)
	q.Start(&heavy{request{msg: &nats.Msg{Subject: "echo"}, report: func(_ *nats.Msg, err error) { large <- err }}})
	asked := wait(t, e.asked, "the large request")
	q.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { small <- err })
	if err := wait(t, small, "the end of the small one"); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the small one: %v", err)
	}
	if err := asked.Respond(nil); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, large, "an answer"); err != nil {
		t.Errorf("the large one: %v", err)
	}
}

func TestWait(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{0: AnswerWait, 1 << 20: AnswerWait, 8 << 20: 9 * time.Second} {
		if got := Wait(bytes); got != want {
			t.Errorf("%d bytes: %v, want %v", bytes, got, want)
		}
	}
	if got := (&request{msg: &nats.Msg{Data: make([]byte, 7)}}).Bytes(); got != 7 {
		t.Errorf("a request with 7 bytes carries %d", got)
	}
}
