package trend

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// NoisyFrom is how many messages have to wait for a tenant to be noisy: one with two among others with one is not.
const NoisyFrom = 10

// Noise remembers which tenants of one queue were noisy, which is what everything that tells quiet tenants from noisy ones goes
// by. The zero value remembers nobody. It is not safe for several goroutines.
type Noise struct {
	kept []loud // the oldest first, none longer ago than a window
}

// loud is who was noisy at a time.
type loud struct {
	at   time.Time
	keys map[string]bool
}

// Add takes in what waits at a time, which is later than the time before, and returns the keys of the tenants that are noisy
// then, or were within the [Window] before. Of the sample it goes by the time and what waits. active is how many tenants are
// active: those with messages, and others that got some a moment ago.
func (n *Noise) Add(s Sample, active int) map[string]bool {
	n.kept = slices.DeleteFunc(n.kept, func(l loud) bool { return s.At.Sub(l.at) > Window })
	n.kept = append(n.kept, loud{s.At, noisyNow(s, active)})
	noisy := map[string]bool{}
	for _, l := range n.kept {
		maps.Copy(noisy, l.keys)
	}
	return noisy
}

// noisyNow returns who is noisy in a sample.
func noisyNow(s Sample, active int) map[string]bool {
	keys := map[string]bool{}
	if active < 2 {
		return keys // a lone tenant has nobody to disturb
	}
	median := s.median(active)
	for _, t := range s.Tenants {
		if t.Waiting < NoisyFrom {
			continue
		}
		if float64(t.Waiting)*float64(s.Total) > float64(s.Waiting) || t.Waiting > 2*median {
			keys[t.Key] = true
		}
	}
	return keys
}

// median is what waits of the tenant in the middle of all that are active; of two, of the one with less. Those that the sample
// was cut off before have what is left, in equal parts, and those without messages nothing.
func (s Sample) median(active int) uint64 {
	backlogs := make([]uint64, 0, len(s.Tenants))
	rest := s.Waiting
	for _, t := range s.Tenants {
		backlogs = append(backlogs, t.Waiting)
		rest -= min(t.Waiting, rest)
	}
	slices.SortFunc(backlogs, func(a, b uint64) int { return cmp.Compare(b, a) })
	switch middle := active / 2; {
	case middle < len(backlogs):
		return backlogs[middle]
	case middle < s.Total:
		return rest / uint64(s.Total-len(backlogs))
	}
	return 0
}
