package controls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/group/grouptest"
	"github.com/fairlead/fairlead/fairshare"
)

// follower keeps what a store tells.
type follower struct {
	mu      sync.Mutex
	changes []Change
	now     map[Thing]fairshare.Weight // as anybody who follows the changes has it
}

func (f *follower) follow(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, c)
	if f.now == nil {
		f.now = map[Thing]fairshare.Weight{}
	}
	if c.Set {
		f.now[c.Thing] = c.Weight
	} else {
		delete(f.now, c.Thing)
	}
}

func (f *follower) log() (text []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.changes {
		text = append(text, fmt.Sprint(c.Kind, c.Queue, "/", c.Key, "=", c.Weight, c.Set))
	}
	return text
}

func newStore(m *grouptest.Mirror, agent string) (*Store, *follower) {
	f := &follower{}
	return New(m, agent, hclog.NewNullLogger(), f.follow), f
}

var (
	queuePause = Thing{QueuePause, "q", ""}
	keyPause   = Thing{KeyPause, "q", "a.b"}
	unkeyed    = Thing{KeyPause, "q", ""}
	weight     = Thing{KeyWeight, "q", "a"}
)

func TestSetAndUnset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := grouptest.NewStore()
		one, told := newStore(bucket.Mirror(grouptest.Options{}), "one")
		two, toldToo := newStore(bucket.Mirror(grouptest.Options{}), "two")
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		set := func(s *Store, c Control) {
			t.Helper()
			got, err := s.Set(ctx, c)
			must(err)
			if got.Agent != s.agent || got.At.IsZero() {
				t.Errorf("set as %+v", got)
			}
		}
		set(one, Control{Thing: queuePause})
		set(two, Control{Thing: unkeyed})
		set(two, Control{Thing: keyPause})
		set(one, Control{Thing: weight, Weight: 2500})
		set(two, Control{Thing: queuePause}) // once more, which changes nothing but who says it
		set(two, Control{Thing: weight, Weight: 500})

		for _, s := range []*Store{one, two} {
			got := s.Queue("q")
			if got.Paused == nil || got.Paused.Agent != "two" || len(got.Keys) != 2 || got.Keys[0].Key != "" || got.Keys[1].Key != "a.b" ||
				len(got.Weights) != 1 || got.Weights[0].Weight != 500 || got.Weights[0].Agent != "two" {
				t.Errorf("%s has %+v", s.agent, got)
			}
			if other := s.Queue("other"); !reflect.DeepEqual(other, Settings{}) {
				t.Errorf("another queue has %+v", other)
			}
		}
		time.Sleep(time.Minute)
		set(one, Control{Thing: queuePause})
		if d, ok := two.Since(queuePause); !ok || d != time.Minute {
			t.Errorf("the queue was paused for %v (%v)", d, ok)
		}
		must(one.Unset(ctx, queuePause))
		if d, ok := two.Since(queuePause); ok {
			t.Errorf("the queue is paused for %v", d)
		}
		must(one.Unset(ctx, unkeyed))
		must(two.Unset(ctx, weight))
		must(two.Unset(ctx, weight)) // not set any more
		if _, ok := one.Get(weight); ok {
			t.Error("the weight is still set")
		}
		if c, ok := two.Get(keyPause); !ok || c.Agent != "two" {
			t.Errorf("%+v %v", c, ok)
		}
		want := []string{"0q/=0 true", "1q/=0 true", "1q/a.b=0 true", "2q/a=2500 true", "2q/a=500 true", "0q/=0 false", "1q/=0 false", "2q/a=0 false"}
		for _, f := range []*follower{told, toldToo} {
			if got := f.log(); !reflect.DeepEqual(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		// An agent that comes later hears of what is left.
		_, late := newStore(bucket.Mirror(grouptest.Options{}), "late")
		synctest.Wait()
		if got := late.log(); !reflect.DeepEqual(got, []string{"1q/a.b=0 true"}) {
			t.Errorf("the one that came later was told %q", got)
		}
	})
}

func TestWhatCannotBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := grouptest.NewStore()
		s, told := newStore(bucket.Mirror(grouptest.Options{}), "one")
		for _, c := range []Control{{Thing: Thing{KeyPause, "q", "\xff"}}, {Thing: weight}, {Thing: weight, Weight: 1_000_001}} {
			if _, err := s.Set(t.Context(), c); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if err := s.Unset(t.Context(), Thing{KeyPause, "q", "\xff"}); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		synctest.Wait()
		if h := bucket.History(""); len(h) > 0 || len(told.log()) > 0 {
			t.Errorf("written %v, told %v", h, told.log())
		}
	})
}

// What others leave in the bucket harms nobody: a pause counts whatever it holds, a weight that cannot be used does not.
func TestForeignRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := grouptest.NewStore()
		_, told := newStore(bucket.Mirror(grouptest.Options{}), "one")
		bucket.Write("pause.q", []byte("by hand"))
		bucket.Write("pause.q.a.b.c", nil)
		bucket.Write("weight.q.a", []byte(`{"weight":2}`))
		bucket.Write("weight.q.b", []byte("heavy"))
		bucket.Write("weight.q.a", []byte(`{"weight":-2}`))
		synctest.Wait()
		if got, want := told.log(), []string{"0q/=0 true", "2q/a=2000 true", "2q/a=0 false"}; !reflect.DeepEqual(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestWritesThatFail(t *testing.T) {
	for name, row := range map[string]struct {
		faults []grouptest.Fault
		want   error // nil: it succeeds
	}{
		"refused":                {[]grouptest.Fault{{Refused: true}}, wire.ErrUnavailable},
		"lost once":              {[]grouptest.Fault{{Lost: true}, {}}, nil},
		"carried out and silent": {[]grouptest.Fault{{Unknown: true}, {Unknown: true}, {}}, nil},
		"lost for ever":          {[]grouptest.Fault{{Lost: true}, {Lost: true}, {Lost: true}}, wire.ErrOutcomeUnknown},
		"lost, then refused":     {[]grouptest.Fault{{Lost: true}, {Refused: true}}, wire.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := grouptest.NewStore()
				n := 0
				m := bucket.Mirror(grouptest.Options{Fault: func(grouptest.Op, string) grouptest.Fault { n++; return row.faults[n-1] }})
				s, _ := newStore(m, "one")
				_, err := s.Set(t.Context(), Control{Thing: queuePause})
				if !errors.Is(err, row.want) || n != len(row.faults) {
					t.Errorf("%v after %d writes, want %v after %d", err, n, row.want, len(row.faults))
				}
				if _, set := s.Get(queuePause); err == nil && !set {
					t.Error("it was said to be set, and this agent does not know of it")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(grouptest.NewStore().Mirror(grouptest.Options{Fault: func(grouptest.Op, string) grouptest.Fault { return grouptest.Fault{Lost: true} }}), "one")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Set(ctx, Control{Thing: queuePause}); !errors.Is(err, wire.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Minute) // what is under way ends
	})
}

// An agent that is cut off keeps what it knew, and follows when it is back.
func TestACutOffAgentKeepsWhatItKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := grouptest.NewStore()
		one, _ := newStore(bucket.Mirror(grouptest.Options{}), "one")
		mirror := bucket.Mirror(grouptest.Options{})
		two, told := newStore(mirror, "two")
		if _, err := one.Set(t.Context(), Control{Thing: queuePause}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mirror.Cut(true)
		if err := one.Unset(t.Context(), queuePause); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := two.Get(queuePause); !ok {
			t.Error("it forgot the pause")
		}
		mirror.Cut(false)
		synctest.Wait()
		if got, want := told.log(), []string{"0q/=0 true", "0q/=0 false"}; !reflect.DeepEqual(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// Many agents that set and unset at random, through slow and failing writes and lagging watches: in the end all have what
// the bucket has, and whoever followed the changes has it too.
func TestAgentsAgree(t *testing.T) {
	things := []Thing{queuePause, keyPause, unkeyed, weight, {KeyWeight, "q", "b"}, {QueuePause, "other", ""}}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
			bucket := grouptest.NewStore()
			var stores []*Store
			var followers []*follower
			var mirrors []*grouptest.Mirror
			for i := range 3 {
				m := bucket.Mirror(grouptest.Options{
					Fault: func(grouptest.Op, string) grouptest.Fault {
						f := grouptest.Fault{Delay: time.Duration(chance(20)) * time.Millisecond}
						switch chance(12) {
						case 0:
							f.Lost = true
						case 1:
							f.Unknown = true
						case 2:
							f.Late = time.Duration(1+chance(3000)) * time.Millisecond
						case 3:
							f.Refused = true
						case 4:
							f.Repeated = true
						}
						return f
					},
					Lag: func() time.Duration { return time.Duration(chance(50)) * time.Millisecond },
				})
				s, f := newStore(m, fmt.Sprint("agent", i))
				stores, followers, mirrors = append(stores, s), append(followers, f), append(mirrors, m)
			}
			var work sync.WaitGroup
			for range 60 {
				s, thing, set := stores[chance(3)], things[chance(len(things))], chance(2) == 0
				work.Go(func() {
					if set {
						_, _ = s.Set(t.Context(), Control{Thing: thing, Weight: fairshare.Weight(1 + chance(3))})
					} else {
						_ = s.Unset(t.Context(), thing)
					}
				})
				if m := mirrors[chance(3)]; chance(10) == 0 {
					m.SetSilent(true)
					time.AfterFunc(200*time.Millisecond, func() { m.SetSilent(false) })
				}
				time.Sleep(time.Duration(chance(30)) * time.Millisecond)
			}
			work.Wait()
			time.Sleep(time.Minute) // what was late has come
			want := map[Thing]fairshare.Weight{}
			for _, thing := range things {
				name, _ := thing.record()
				if e, ok := bucket.Get(name); ok {
					c, err := decode(thing, e.Value)
					if err != nil {
						t.Fatal(err)
					}
					want[thing] = c.Weight
				}
			}
			for i, f := range followers {
				f.mu.Lock()
				if len(f.now) != len(want) || len(want) > 0 && !reflect.DeepEqual(f.now, want) {
					t.Errorf("seed %d: agent %d has %v, the bucket %v", seed, i, f.now, want)
				}
				f.mu.Unlock()
				for thing, w := range want {
					if c, ok := stores[i].Get(thing); !ok || c.Weight != w {
						t.Errorf("seed %d: agent %d has %+v of %v", seed, i, c, thing)
					}
				}
			}
		})
	}
}
