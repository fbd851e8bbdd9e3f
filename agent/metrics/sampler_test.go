package metrics

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

// A sample that takes long is taken seldom: 1 % of the time at most.
func TestSamplingTakesOnePercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(0)
		f := &fake{stats: held(), takes: 200 * time.Millisecond}
		m.Start(f)
		defer m.Stop()
		for range 600 { // ten minutes of scrapes, one a second
			time.Sleep(time.Second)
			scrape(t, m)
		}
		if n := f.asked.Load(); n < 25 || n > 31 {
			t.Errorf("%d samples of 200 ms in ten minutes, want about 30", n)
		}
	})
}

// Nobody scrapes: nothing is asked. Somebody does again: the next scrape has something to show.
func TestNoSamplesForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(0)
		f := &fake{stats: held()}
		m.Start(f)
		defer m.Stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := f.asked.Load(); n > 70 {
			t.Errorf("%d samples in an hour without a scrape", n)
		}
		all, _ := scrape(t, m)
		if _, ok := value(all, "fairlead_waiting_messages", "queue=jobs", "priority=0"); ok {
			t.Error("an old sample is shown as if it were of now")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		all, _ = scrape(t, m)
		want(t, all, 8, "fairlead_waiting_messages", "queue=jobs", "priority=0")
	})
}

// JetStream does not answer: failures are counted, what is known is shown with its age, and after a while not at all.
func TestSamplesWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(0)
		f := &fake{stats: held()}
		m.Start(f)
		defer m.Stop()
		synctest.Wait()
		away := errors.New("away")
		f.err.Store(&away)
		time.Sleep(3 * time.Second)
		all, _ := scrape(t, m)
		want(t, all, 8, "fairlead_waiting_messages", "queue=jobs", "priority=0")
		want(t, all, 3, "fairlead_sample_age_seconds", "queue=jobs")
		if n, _ := value(all, "fairlead_sample_failures_total"); n < 1 {
			t.Errorf("%v failures", n)
		}
		time.Sleep(time.Minute)
		all, _ = scrape(t, m)
		if _, ok := value(all, "fairlead_waiting_messages", "queue=jobs", "priority=0"); ok {
			t.Error("what was a minute ago is shown as if it were of now")
		}
		f.err.Store(nil)
		time.Sleep(10 * time.Second)
		all, _ = scrape(t, m)
		want(t, all, 8, "fairlead_waiting_messages", "queue=jobs", "priority=0")
	})
}

// BenchmarkObserve is what counting adds to the life of one message.
func BenchmarkObserve(b *testing.B) {
	m, _ := newMetrics(0)
	o := m.Observer()
	ds := make([]delivery.Delivery, 64)
	for i := range ds {
		ds[i].Message = &broker.Message{Queue: "jobs", Level: i % 2, Key: "acme", Attempt: 1, EnqueuedAt: time.Now(), Asked: time.Now()}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(ds) {
		o.Handed(ds)
		for i := range ds {
			o.Ended(ds[i].Message, delivery.Acked, delivery.Took{Held: time.Millisecond})
		}
	}
}
