package fairshare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var pullSizes = []int{1, 2, 8, 64}

// pullAll takes n messages in pulls of the given size.
func (l *lanes) pullAll(n, size int) []string {
	var got []string
	for len(got) < n {
		more := l.pull(min(size, n-len(got)))
		if len(more) == 0 {
			break
		}
		got = append(got, more...)
	}
	return got
}

func counts(deliveries []string) map[string]int {
	n := map[string]int{}
	for _, key := range deliveries {
		n[key]++
	}
	return n
}

func TestThreeToOneInEveryWindowOfFour(t *testing.T) {
	for _, size := range pullSizes {
		for seed := range uint64(10) {
			l := newLanes(New(seed))
			l.publish("light", 1000, 1000)
			l.publish("heavy", 3000, 1000)
			got := l.pullAll(1000, size)
			for i := 0; i+4 <= len(got); i++ {
				if n := counts(got[i : i+4])["heavy"]; n != 3 {
					t.Fatalf("pulls of %d, seed %d: %d of 4 at %d", size, seed, n, i)
				}
			}
		}
	}
}

func TestMoreTenantsThanCredit(t *testing.T) {
	for seed := range uint64(20) {
		l := newLanes(New(seed))
		for k := range 20 {
			l.publish(fmt.Sprint(k), One, 100)
		}
		n := counts(l.pullAll(400, 8))
		for k := range 20 {
			if got := n[fmt.Sprint(k)]; got < 19 || got > 21 {
				t.Errorf("seed %d: tenant %d got %d of 400, want 20 and at most one off", seed, k, got)
			}
		}
	}
}

// 30,000 of one tenant wait, some are done, then another publishes 10.
func TestSmallBacklogIsNotBehindABigOne(t *testing.T) {
	for _, size := range pullSizes {
		for seed := range uint64(10) {
			l := newLanes(New(seed))
			l.publish("big", One, 30_000)
			l.pullAll(500, size)
			l.publish("small", One, 10)
			if got := counts(l.pullAll(24, size))["small"]; got != 10 {
				t.Errorf("pulls of %d, seed %d: %d of the ten within 24 deliveries", size, seed, got)
			}
		}
	}
}

func TestLoneTenantGetsEverything(t *testing.T) {
	for _, size := range pullSizes {
		l := newLanes(New(1))
		l.publish("lone", 1, 500)
		if got := l.pullAll(500, size); len(got) != 500 {
			t.Errorf("pulls of %d: %d of 500", size, len(got))
		}
	}
}

// A batch gives what single takes would give, in that order: whatever the size
// of the pulls, with lanes that run dry inside a batch and others that come.
func TestBatchesEqualSingles(t *testing.T) {
	for seed := range uint64(200) {
		singles := batchHistory(seed, 1)
		for _, size := range pullSizes[1:] {
			if got := batchHistory(seed, size); !slices.Equal(got, singles) {
				t.Fatalf("seed %d, pulls of %d:\n%v\nsingles:\n%v", seed, size, got, singles)
			}
		}
	}
}

// batchHistory publishes at random, and pulls 64 after each time.
func batchHistory(seed uint64, size int) []string {
	rnd := rand.New(rand.NewPCG(seed, 5))
	l := newLanes(New(seed))
	weights := make([]Weight, 12)
	for i := range weights {
		weights[i] = Weight(1 + rnd.IntN(5000))
	}
	var got []string
	for range 12 {
		for range rnd.IntN(8) {
			k := rnd.IntN(len(weights))
			l.publish(fmt.Sprint(k), weights[k], 1+rnd.IntN(20))
		}
		got = append(got, l.pullAll(64, size)...)
		got = append(got, "|")
	}
	return got
}

// The weight that a message really has is what is paid, whatever was expected.
func TestChargedWithTheRealWeight(t *testing.T) {
	p := New(1)
	p.Wake("header", One) // expected: 1, its messages say 3
	p.Wake("plain", One)
	n := map[string]int{}
	for range 4000 {
		turn, _ := p.Pick()
		n[turn.Key]++
		if turn.Key == "header" {
			p.Settle(turn, 3000)
		} else {
			p.Settle(turn, One)
		}
	}
	if n["header"] != 3000 {
		t.Errorf("%v, want 3:1", n)
	}
}

func TestWeightChangesAtTheNextPick(t *testing.T) {
	p := New(1)
	for _, key := range []string{"a", "b"} {
		p.Wake(key, One)
	}
	take := func(n int) map[string]int {
		got := map[string]int{}
		for range n {
			turn, _ := p.Pick()
			p.Settle(turn, turn.Weight)
			got[turn.Key]++
		}
		return got
	}
	if got := take(100); got["a"] != 50 {
		t.Errorf("equal weights: %v", got)
	}
	p.SetWeight("a", 4000)
	if got := take(100); got["a"] != 80 {
		t.Errorf("4:1: %v", got)
	}
	p.SetWeight("a", 250)
	if got := take(100); got["a"] < 19 || got["a"] > 21 {
		t.Errorf("1:4: %v", got)
	}
}
