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
