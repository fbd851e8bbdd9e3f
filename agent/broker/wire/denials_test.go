package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/rights"
)

// A call that the server refuses ends with the server's words, and leaves nothing behind; another one goes on.
func TestARefusedCallEnds(t *testing.T) {
	w := newWire(t, connect(t))
	under := make(chan struct{}, 2)
	call := func(ctx context.Context) (int, error) {
		under <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	type outcome struct {
		subject string
		err     error
	}
	ended := make(chan outcome, 2)
	ctx, cancel := context.WithCancel(t.Context())
	for _, subject := range []string{"refused", "other"} {
		go func() {
			_, err := Permitted(ctx, w, subject, call)
			ended <- outcome{subject, err}
		}()
		wait(t, under, "the call")
	}
	if w.Deny(errors.New("anything else")) != nil {
		t.Error("an error of another kind is taken for a refusal")
	}
	w.Deny(fmt.Errorf(`%w: Permissions Violation for Publish to "refused"`, nats.ErrPermissionViolation))
	o := wait(t, ended, "the end of the call")
	var refused *NotPermittedError
	if o.subject != "refused" || !errors.As(o.err, &refused) || !errors.Is(o.err, ErrUnavailable) || refused.Missing.For != "a test" {
		t.Errorf("%s ended with %v", o.subject, o.err)
	}
	if w.Denied(rights.Publish, "refused") == nil || w.Denied(rights.Publish, "other") != nil || w.Denied(rights.Subscribe, "refused") != nil {
		t.Error("not what was refused is remembered")
	}
	if n := len(w.Missing()); n != 1 {
		t.Errorf("%d rights are missing", n)
	}
	cancel()
	if o := wait(t, ended, "the end of the other call"); o.subject != "other" || !errors.Is(o.err, context.Canceled) {
		t.Errorf("%s ended with %v", o.subject, o.err)
	}
	if len(w.asked) > 0 {
		t.Errorf("%d calls are still waited for", len(w.asked))
	}
}

// A request whose right was refused does not wait for the whole of its time.
func TestARefusedRequestEndsSoon(t *testing.T) {
	nc := connect(t)
	newEcho(t, nc, "echo")
	w := newWire(t, nc)
	w.Writes.wait = 10 * patience
	errs := make(chan error, 1)
	w.Writes.Do(&nats.Msg{Subject: "echo"}, func(_ *nats.Msg, err error) { errs <- err })
	w.Deny(fmt.Errorf(`%w: Permissions Violation for Publish to "echo"`, nats.ErrPermissionViolation))
	if err := wait(t, errs, "an outcome"); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("got %v", err)
	}
}
