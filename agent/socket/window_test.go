package socket

import (
	"errors"
	"testing"
	"testing/synctest"
)

func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(2, 100)
		if !w.enter(1000) {
			t.Fatal("one line alone has no room")
		}
		entered := 0
		enter := func(size int64) {
			go func() {
				if w.enter(size) {
					entered++
				}
			}()
			synctest.Wait()
		}
		if enter(1); entered != 0 {
			t.Error("a line enters beside one that takes all bytes")
		}
		w.leave(1000)
		synctest.Wait()
		if enter(1); entered != 2 {
			t.Errorf("%d entered, want 2", entered)
		}
		if enter(1); entered != 2 {
			t.Error("a third line enters")
		}
		w.breakOff()
		synctest.Wait()
		if w.enter(0); entered != 2 {
			t.Error("a line enters after the end")
		}
	})
}

func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(10)
		put := 0
		add := func(text string) {
			go func() { o.put([]byte(text)); put++ }()
			synctest.Wait()
		}
		add("123456789012345") // one piece always has room
		if add("x"); put != 1 {
			t.Fatalf("%d of 2 were put beyond the bound", put)
		}
		if got := string(o.take()); got != "123456789012345" {
			t.Errorf("took %q", got)
		}
		synctest.Wait()
		add("y")
		if got := string(o.take()); got != "xy" || put != 3 {
			t.Errorf("took %q after %d", got, put)
		}
		add("z")
		o.close()
		if got := string(o.take()); got != "z" {
			t.Errorf("took %q", got)
		}
		if got := o.take(); got != nil {
			t.Errorf("took %q after the end", got)
		}
		o.breakOff(errors.New("gone"))
		if add("12345678901"); put != 5 || o.take() != nil || o.failure() == nil {
			t.Error("an outbox that nobody reads goes on")
		}
	})
}
