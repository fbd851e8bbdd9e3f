package broker

import (
	"testing"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

func TestWatch(t *testing.T) {
	for name, change := range map[string]func(*config.Queue){"fair": nil, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			other := r.another()
			wakes := make(chan Wake, 100)
			stop, err := other.Watch(other.layout(), func(w Wake) { wakes <- w })
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if err := other.wire.NC.Flush(); err != nil { // the server knows of the watch
				t.Fatal(err)
			}
			key := func(k string) string {
				if !r.q.FairShare.Enabled {
					return ""
				}
				return k
			}
			unprioritised := names.NoPriority
			if !r.q.FairShare.Enabled {
				unprioritised = "p1" // one lane reads both
			}
			for _, tt := range []struct {
				subject string
				headers []string
				want    Wake
			}{
				{"p0.acme", []string{"Fairlead-Weight", "2.5"}, Wake{Address: Address{"p0", 0, key("acme")}, Weight: 2500, Known: true}},
				{"d._", nil, Wake{Address: Address{unprioritised, 1, ""}, Known: true}},
				{"p0.acme", []string{"Fairlead-Weight", "poison"}, Wake{Address: Address{"p0", 0, key("acme")}, Known: true}},
				{"p7.a=2Eb", nil, Wake{Address: Address{"p7", 2, key("a.b")}, Known: true}},
				{"px.a", nil, Wake{}},
				{"p00.a", []string{"Fairlead-Weight", "3"}, Wake{Weight: 3000}},
			} {
				r.raw(tt.subject, "payload", tt.headers...)
				got := wait(t, wakes, "a wake-up")
				if got.Seq == 0 {
					t.Errorf("%s woke without a sequence", tt.subject)
				}
				if got.Seq = 0; got != tt.want {
					t.Errorf("%s %v woke with %+v, want %+v", tt.subject, tt.headers, got, tt.want)
				}
			}
			if n := other.metrics.Wakeups.Load("orders"); n != 6 {
				t.Errorf("counted %d wake-ups", n)
			}
			// A finish, a return and a refused publish wake nobody; the next message does.
			a := r.asker()
			r.finished(a.take(a.at(0, "acme"), 1)[0])
			r.giveBack(a.take(a.at(0, "acme"), 1)[0], Return{})
			r.publish(2, "", "x")
			if got := wait(t, wakes, "a wake-up"); got.Address.Level != 2 {
				t.Errorf("woke with %+v", got)
			}
		})
	}
}
