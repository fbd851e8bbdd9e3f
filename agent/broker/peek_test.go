package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

func (r *rig) peek(p Peek) string {
	r.t.Helper()
	found, err := r.Peek(within(r.t), r.q, p)
	if err != nil {
		r.t.Fatal(err)
	}
	var s []string
	for _, m := range found {
		s = append(s, fmt.Sprintf("%d/%s/%s", m.Level, m.Key, m.Data))
	}
	return strings.Join(s, " ")
}

func TestPeek(t *testing.T) {
	for name, change := range map[string]func(*config.Queue){"fair": nil, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			if got := r.peek(Peek{Max: 10}); got != "" {
				t.Errorf("an empty queue shows %s", got)
			}
			r.publish(2, "a", "l1")
			r.raw("p7.b", "gone1") // a level that does not exist
			r.publish(-1, "b", "m1")
			r.publish(0, "a.b", "h1")
			r.publish(1, "", "m2")
			r.publish(-1, "a", "m3")
			r.publish(2, "b", "l2")
			r.publish(0, "b", "h2")
			skipped := r.raw("p5.a", "gone2")
			r.raw("px.a", "odd")

			one, zero, a, b, none := 1, 2, "a", "b", ""
			for _, tt := range []struct {
				peek Peek
				want string
			}{
				{Peek{Max: 100}, "0/a.b/h1 0/b/h2 1/b/m1 1//m2 1/a/m3 2/a/l1 2/b/gone1 2/b/l2 2/a/gone2"},
				{Peek{Max: 4}, "0/a.b/h1 0/b/h2 1/b/m1 1//m2"},
				{Peek{}, "0/a.b/h1"},
				{Peek{Max: 100, Level: &one}, "1/b/m1 1//m2 1/a/m3"},
				{Peek{Max: 2, Level: &zero}, "2/a/l1 2/b/gone1"},
				{Peek{Max: 100, Key: &b}, "0/b/h2 1/b/m1 2/b/gone1 2/b/l2"},
				{Peek{Max: 100, Key: &none}, "1//m2"},
				{Peek{Max: 100, Level: &one, Key: &a}, "1/a/m3"},
				{
					Peek{Max: 100, Key: &a, Skip: func(queue string, seq uint64) bool { return queue == "orders" && seq == skipped }},
					"1/a/m3 2/a/l1",
				},
			} {
				if got := r.peek(tt.peek); got != tt.want {
					t.Errorf("%+v shows\n%s, want\n%s", tt.peek, got, tt.want)
				}
			}
			if r.stored() != 10 {
				t.Errorf("looking took something: %d are left of 10", r.stored())
			}
		})
	}
}

func TestPeekedMessage(t *testing.T) {
	r := newRig(t, nil)
	receipt, err := r.Publish(within(t), r.q, Publication{
		Level: 0, Key: "acme", Weight: 2500, ID: "id-1", ContentType: "text/plain", Headers: map[string]string{"x-mine": "ä"}, Data: []byte("hello"),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := r.asker()
	at := time.Now().Add(time.Hour)
	r.giveBack(a.take(a.at(0, "acme"), 1)[0], Return{Counts: AnAttempt, NotBefore: at, Reason: "boom"})
	found, err := r.Peek(within(t), r.q, Peek{Max: 1})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	m := found[0]
	if m.Seq != receipt.Seq || m.Weight != 2500 || m.ID != "id-1" || m.ContentType != "text/plain" || len(m.Headers) != 1 || m.Headers["x-mine"] != "ä" ||
		string(m.Data) != "hello" || time.Since(m.EnqueuedAt).Abs() > time.Minute {
		t.Errorf("%+v", m)
	}
	if m.Attempts != 1 || m.LastError != "boom" || m.NotBefore.Before(at) || m.NotBefore.After(at.Add(time.Second)) {
		t.Errorf("tried %d times, %q, not before %v, want %v", m.Attempts, m.LastError, m.NotBefore, at)
	}
	bad := strings.Repeat("x", 200)
	if _, err := r.Peek(within(t), r.q, Peek{Key: &bad}); !errors.Is(err, names.ErrInvalidKey) {
		t.Errorf("a key that cannot be: %v", err)
	}
	other := definition(func(q *config.Queue) { q.Name = "missing" })
	if _, err := r.Peek(within(t), other, Peek{}); !errors.Is(err, ErrStreamMissing) {
		t.Errorf("no stream: %v", err)
	}
}
