package broker

import (
	"testing"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// A capsule's queues of one shape have lanes of one name, each in its own stream. What comes from one is never taken for
// the other's: its sequence would finish, or return, a message that nobody has worked on.
func TestQueuesOfOneShape(t *testing.T) {
	r := newRig(t, nil)
	second := &rig{r.Client, t, definition(func(q *config.Queue) { q.Name = "invoices" })}
	second.define(second.q)
	a := r.asker()
	orders := a.at(0, "a")
	invoices := a.Lane(second.layout(), Address{Class: names.Class(0), Key: "a"})
	if orders.Name() != invoices.Name() {
		t.Fatal("the lanes have names of their own: this test shows nothing")
	}
	r.publish(0, "a", "order")
	second.publish(0, "a", "invoice")
	for range 50 { // both open at the same time
		a.Ask(orders, 1, 0)
		a.Ask(invoices, 1, 0)
		for range 2 {
			answer := wait(t, a.answers, "an answer")
			want := map[*Lane]string{orders: "order ", invoices: "invoice "}[answer.Lane]
			if payloads(answer.Messages) != want || answer.Err != nil {
				t.Fatalf("%s answered %q, %v", answer.Lane.Queue(), payloads(answer.Messages), answer.Err)
			}
			m := answer.Messages[0]
			if m.Queue != answer.Lane.Queue() || m.Lane != answer.Lane {
				t.Fatalf("%s was taken for a message of %s", m.Data, m.Queue)
			}
			(&rig{r.Client, t, r.q}).giveBack(m, Return{})
		}
	}
	// The same for what comes unasked.
	if err := r.wire.NC.PublishRequest(invoices.next, a.prefix+"zzzz", []byte(`{"batch":1,"expires":10000000000}`)); err != nil {
		t.Fatal(err)
	}
	if m := wait(t, a.strays, "the stray message"); m.Queue != "invoices" {
		t.Errorf("%s was taken for a message of %s", m.Data, m.Queue)
	}
}
