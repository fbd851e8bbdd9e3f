package delivery

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// What is given up, by whom, and what the record says of it. In the queue "limited" the third attempt is the last.
func TestGivingUp(t *testing.T) {
	for name, c := range map[string]struct {
		queue   string
		attempt int
		lose    string
		want    broker.Burial // its zero value: it goes back
	}{
		"a nack of the last attempt":              {"limited", 3, "nack", broker.Burial{Reason: broker.DeadMaxAttempts, Attempts: 3, Error: "boom"}},
		"also with a delay":                       {"limited", 3, "nack 5s", broker.Burial{Reason: broker.DeadMaxAttempts, Attempts: 3, Error: "boom"}},
		"a nack of an earlier one":                {"limited", 2, "nack", broker.Burial{}},
		"one more than allowed":                   {"limited", 4, "nack", broker.Burial{Reason: broker.DeadMaxAttempts, Attempts: 4, Error: "boom"}},
		"a queue that never gives up":             {"q", 1000, "nack", broker.Burial{}},
		"a lease that ends":                       {"limited", 3, "lease", broker.Burial{Reason: broker.DeadMaxAttempts, Attempts: 3, Error: "the lease expired"}},
		"a lease that ends early":                 {"limited", 1, "lease", broker.Burial{}},
		"a session that ends":                     {"limited", 3, "session", broker.Burial{Reason: broker.DeadMaxAttempts, Attempts: 3, Error: "the session ended"}},
		"an answer that was not written":          {"limited", 3, "unwritten", broker.Burial{}},
		"a drain":                                 {"limited", 3, "drain", broker.Burial{}},
		"a reject of the first attempt":           {"limited", 1, "reject", broker.Burial{Reason: broker.DeadRejected, Attempts: 1, Error: "boom"}},
		"a reject of the last one":                {"limited", 3, "reject", broker.Burial{Reason: broker.DeadRejected, Attempts: 3, Error: "boom"}},
		"a reject in a queue that never gives up": {"q", 2, "reject", broker.Burial{Reason: broker.DeadRejected, Attempts: 2, Error: "boom"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBroker{}
				b, o := New(f, fixed{}), &fakeOwner{}
				defer b.Close()
				msgs := messages(c.queue, 1, 1)
				msgs[0].Attempt = c.attempt
				s := b.OpenSession()
				ds := hand(t, b, o, msgs, time.Minute, s)
				if c.lose == "unwritten" {
					b.Unwritten(ds)
				} else {
					b.Written(ds)
				}
				switch c.lose {
				case "lease":
					time.Sleep(time.Minute)
				case "session":
					b.End(s)
				case "drain":
					b.ReturnAll()
				case "nack", "reject":
					wantStatus(t, c.lose, say(b, ds[0].Token, api.Settlement{Result: api.Result(c.lose), Reason: "boom"}), api.StatusOK)
				case "nack 5s":
					wantStatus(t, c.lose, say(b, ds[0].Token, api.Settlement{Result: api.Nack, Delay: "5s", Reason: "boom"}), api.StatusOK)
				}
				waitIdle(t, b)
				gone, back := f.gaveUp(), f.gaveBack()
				if c.want.Reason == "" {
					if len(gone) != 0 || len(back) != 1 {
						t.Fatalf("given up %v, given back %s", gone, describe(back))
					}
					return
				}
				if len(gone) != 1 || len(back) != 0 || gone[0].m != msgs[0] || gone[0].as != c.want {
					t.Fatalf("given up %+v, given back %s", gone, describe(back))
				}
				// It is not available to anybody, and its slot is free once.
				if !slices.Equal(o.log, []string{"released"}) || o.slots() != 1 {
					t.Errorf("the owner was told %v", o.log)
				}
				if n := b.Stats().Buried; n != 1 {
					t.Errorf("counted %d", n)
				}
			})
		})
	}
}

func say(b *Book, token string, s api.Settlement) api.Status {
	s.Token = token
	return b.Settle(context.Background(), []api.Settlement{s})[0].Status
}

// A reject is answered ok after the message was moved, and not before.
func TestRejectIsAnsweredAfterTheMove(t *testing.T) {
	for _, c := range []struct {
		f           broker.Finish
		first, also api.Status
	}{
		{broker.Finished, api.StatusOK, api.StatusAlreadySettled},
		{broker.AlreadyFinished, api.StatusAlreadySettled, api.StatusAlreadySettled},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeBroker{manual: true}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			d := hand(t, b, o, messages("q", 1, 1), time.Minute, nil)
			answers := make(chan api.Status, 2)
			go func() { answers <- settle(b, d[0].Token, "reject") }()
			synctest.Wait()
			go func() { answers <- settle(b, d[0].Token, "ack") }()
			synctest.Wait()
			time.Sleep(2 * time.Minute) // its lease does not end while it is moved
			if len(answers) != 0 || o.slots() != 0 {
				t.Fatalf("%d answers and %d slots before the move was confirmed", len(answers), o.slots())
			}
			f.buryOne(c.f, nil)
			got := []api.Status{<-answers, <-answers}
			slices.Sort(got)
			want := []api.Status{c.first, c.also}
			slices.Sort(want)
			if !slices.Equal(got, want) || o.slots() != 1 {
				t.Errorf("%v and %d slots, want %v", got, o.slots(), want)
			}
		})
	}
}

// While nobody can be asked, an app is told so and asks again. When there is nowhere to put it, the message goes back with
// the verdict and the longest backoff; a reject is not called done then, a nack is.
func TestWhatCannotBeBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		f := &fakeBroker{bury: func(*broker.Message) error { return err }}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		msgs := messages("limited", 1, 2)
		msgs[0].Attempt, msgs[1].Attempt = 3, 1
		ds := hand(t, b, o, msgs, time.Minute, nil)

		err = broker.ErrUnavailable
		for i, words := range []string{"nack", "reject"} {
			wantStatus(t, words, settle(b, ds[i].Token, words), api.StatusUnavailable)
		}
		if n := o.slots(); n != 0 || b.InFlight() != 2 {
			t.Fatalf("%d slots are free and %d in flight: both are still with the app", n, b.InFlight())
		}
		err = broker.ErrDeadLetters
		before := time.Now()
		wantStatus(t, "nack", settle(b, ds[0].Token, "nack"), api.StatusOK)
		wantStatus(t, "reject", settle(b, ds[1].Token, "reject"), api.StatusUnavailable)
		wantStatus(t, "reject again", settle(b, ds[1].Token, "reject"), api.StatusExpired)
		waitIdle(t, b)
		back := f.gaveBack()
		if len(back) != 2 || o.slots() != 2 {
			t.Fatalf("given back %s, %d slots", describe(back), o.slots())
		}
		for i, why := range []broker.DeadReason{broker.DeadMaxAttempts, broker.DeadRejected} {
			if how := back[i].how; how.Dead != why || how.Counts != broker.AnAttempt || how.NotBefore.Before(before.Add(time.Minute)) {
				t.Errorf("%d went back as %+v, want the verdict %s and the longest backoff", i, how, why)
			}
		}
		if s := b.Stats(); s.Buried != 0 || s.BurialsFailed != 4 {
			t.Errorf("%d buried, %d failed", s.Buried, s.BurialsFailed)
		}
	})
}

// After a burial whose outcome is unknown the message may be among the dead letters: whatever its app does next, but to
// finish it, it is buried, and not handed out again.
func TestABurialWithAnUnknownOutcomeIsRepeated(t *testing.T) {
	for _, lose := range []string{"lease", "session", "drain", "nack", "reject"} {
		synctest.Test(t, func(t *testing.T) {
			var answers atomic.Bool
			f := &fakeBroker{bury: func(*broker.Message) error {
				if answers.Load() {
					return nil
				}
				return broker.ErrOutcomeUnknown
			}}
			b, o := New(f, fixed{}), &fakeOwner{}
			defer b.Close()
			s := b.OpenSession()
			d := hand(t, b, o, messages("q", 1, 1), time.Minute, s)
			b.Written(d)
			wantStatus(t, "reject", settle(b, d[0].Token, "reject"), api.StatusUnavailable)
			answers.Store(true)
			switch lose {
			case "lease":
				time.Sleep(2 * time.Minute)
			case "session":
				b.End(s)
			case "drain":
				b.ReturnAll()
			default:
				wantStatus(t, lose, settle(b, d[0].Token, lose), api.StatusOK)
			}
			waitIdle(t, b)
			gone := f.gaveUp()
			if len(f.gaveBack()) != 0 || len(gone) == 0 || gone[len(gone)-1].as.Reason != broker.DeadRejected || b.Stats().Buried != 1 {
				t.Errorf("%s: given back %s, given up %+v", lose, describe(f.gaveBack()), gone)
			}
			if o.slots() != 1 {
				t.Errorf("%s: %d slots", lose, o.slots())
			}
		})
	}
}

// A tenure that ends while its message is moved leaves the message to the next holder, and the app is told.
func TestATenureThatEndsDuringAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{bury: func(*broker.Message) error { return broker.ErrTenureOver }}
		b, o := New(f, fixed{}), &fakeOwner{}
		defer b.Close()
		s := b.OpenSession()
		d := hand(t, b, o, messages("q", 1, 1), time.Minute, s)
		wantStatus(t, "reject", settle(b, d[0].Token, "reject"), api.StatusLeaseLost)
		wantStatus(t, "reject again", settle(b, d[0].Token, "reject"), api.StatusLeaseLost)
		waitIdle(t, b)
		if o.slots() != 1 || len(f.gaveBack()) != 0 {
			t.Errorf("%d slots, given back %s", o.slots(), describe(f.gaveBack()))
		}
		if e := b.Events(s); len(e) != 1 || e[0].Reason != "lease_lost" {
			t.Errorf("the session was told %+v", e)
		}
	})
}

func TestLastAttempt(t *testing.T) {
	for _, c := range []struct {
		most, attempt int
		want          bool
	}{{5, 4, false}, {5, 5, true}, {5, 6, true}, {1, 1, true}, {0, 1_000_000, false}} {
		b := Backoff{Setting: func(string) config.Retry { return config.Retry{MaxAttempts: c.most} }}
		if got := b.LastAttempt("q", c.attempt); got != c.want {
			t.Errorf("attempt %d of %d: %v", c.attempt, c.most, got)
		}
	}
}
