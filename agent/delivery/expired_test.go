package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// What has expired between the take and the hand-over is not handed out, to the millisecond: it goes back, uncounted. What has
// a moment left is, and stays its app's for as long as its lease lasts.
func TestExpiredMessagesAreNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		msgs := messages("q", 1, 4)
		msgs[0].Expires = time.Now()
		msgs[1].Expires = time.Now().Add(time.Millisecond)
		msgs[2].Expires = time.Now().Add(-time.Hour)
		ds := hand(t, b, o, msgs, time.Minute, nil)
		synctest.Wait()
		if len(ds) != 2 || ds[0].Message.Seq != 2 || ds[1].Message.Seq != 4 {
			t.Fatalf("%d were handed out", len(ds))
		}
		r := f.gaveBack()
		if len(r) != 2 || r[0].m.Seq != 1 || r[1].m.Seq != 3 || r[0].how.Counts != broker.NotAnAttempt || o.slots() != 2 {
			t.Errorf("given back: %s; %d slots", describe(r), o.slots())
		}
		if n := b.Stats().TooLate; n != 2 {
			t.Errorf("%d were too late", n)
		}
		b.Written(ds)
		time.Sleep(time.Second)
		wantStatus(t, "running work past its time", settle(b, ds[0].Token, "ack"), api.StatusOK)
		wantStatus(t, "the other", settle(b, ds[1].Token, "ack"), api.StatusOK)
		waitIdle(t, b)
	})
}
