package delivery

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// Thirty thousand deliveries a second for ten minutes: 18 million tokens, all still known, in less than 10 MiB.
func TestMemoryOfTenMinutesAtFullRate(t *testing.T) {
	const rate, span = 30_000, Remember
	m := newMemory()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	issued := 0
	var first, last uint64
	for now := instant(0); now < span; now += time.Millisecond {
		for range rate / 1000 {
			last = m.issue(now)
			if issued == 0 {
				first = last
			}
			m.over(last, fateSettled, now)
			issued++
		}
		if now%sweepEvery == 0 {
			m.sweep(now)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d tokens in %d KiB", issued, used>>10)
	if issued != 18_000_000 || used > 10<<20 {
		t.Errorf("%d tokens take %d bytes, want at most 10 MiB", issued, used)
	}
	if m.fate(first, span-1) != fateSettled || m.fate(last, span-1) != fateSettled {
		t.Error("a token of the last ten minutes is forgotten")
	}
	m.sweep(2 * span)
	if len(m.chunks) != 0 {
		t.Errorf("%d chunks are kept after everything was over for ten minutes", len(m.chunks))
	}
}

func TestMemoryAgainstAMap(t *testing.T) {
	type known struct {
		f  fate
		at instant
	}
	r := rand.New(rand.NewPCG(7, 11))
	m := newMemory()
	var open []uint64
	over := map[uint64]known{}
	seen := map[uint64]bool{}
	now := instant(0)
	for range 200_000 {
		switch r.IntN(10) {
		case 0:
			now += instant(r.Int64N(int64(2 * time.Second)))
		case 1:
			if r.IntN(200) == 0 {
				now += Remember
			}
			m.sweep(now)
		case 2, 3, 4, 5, 6:
			id := m.issue(now)
			if seen[id] {
				t.Fatalf("number %d was issued twice", id)
			}
			seen[id] = true
			open = append(open, id)
		default:
			if len(open) == 0 {
				continue
			}
			i := r.IntN(len(open))
			f := fate(1 + r.IntN(3))
			m.over(open[i], f, now)
			over[open[i]] = known{f, now}
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		if r.IntN(100) == 0 {
			for _, id := range open[:min(len(open), 3)] {
				if f := m.fate(id, now); f != fateUnknown {
					t.Fatalf("an open delivery has fate %d", f)
				}
			}
		}
	}
	for id, k := range over {
		got := m.fate(id, now)
		if now-k.at < Remember && got != k.f {
			t.Fatalf("token %d: fate %d after %v, want %d", id, got, now-k.at, k.f)
		}
		if got != k.f && got != fateUnknown {
			t.Fatalf("token %d: fate %d, want %d or nothing", id, got, k.f)
		}
	}
}

// A quiet agent forgets in time as well: one delivery a minute does not keep the tokens of an hour.
func TestMemoryFadesAtALowRate(t *testing.T) {
	m := newMemory()
	var first uint64
	for now := instant(0); now < time.Hour; now += time.Minute {
		id := m.issue(now)
		if now == 0 {
			first = id
		}
		m.over(id, fateSettled, now)
		m.sweep(now)
		if now > Remember+chunkSpan && m.fate(first, now) != fateUnknown {
			t.Fatalf("still known after %v", now)
		}
	}
	if len(m.chunks) > 12 {
		t.Errorf("%d chunks are kept for ten minutes at one a minute", len(m.chunks))
	}
}
