package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// A message that nobody can read goes where rejected ones go, and its slot is free again.
func TestRejectDamagedIsAReject(t *testing.T) {
	f := &fakeBroker{}
	b, o := New(f, fixed{}), &fakeOwner{}
	defer b.Close()
	d := hand(t, b, o, messages("q", 1, 2), time.Minute, nil)
	b.RejectDamaged(context.Background(), []api.Settlement{{Token: d[1].Token, Result: api.Reject, Reason: "damaged"}})
	if s := b.Stats(); s.Damaged != 1 || s.Rejected != 1 || s.Live != 1 || o.slots() != 1 {
		t.Errorf("%+v, %d slots", s, o.slots())
	}
	gone := f.gaveUp()
	if len(gone) != 1 || gone[0].m.Seq != 2 || gone[0].as != (broker.Burial{Reason: broker.DeadRejected, Attempts: 1, Error: "damaged"}) {
		t.Errorf("given up as %+v", gone)
	}
	wantStatus(t, "the app's ack", settle(b, d[1].Token, "ack"), api.StatusAlreadySettled)
}
