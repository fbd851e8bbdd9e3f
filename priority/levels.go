package priority

import "math/bits"

// levelSet holds the levels that have work, a bit each, so that finding the
// highest one, or the next one below another, does not walk over the levels.
type levelSet []uint64

func newLevelSet(levels int) levelSet { return make(levelSet, (levels+63)/64) }

func (s levelSet) set(level int, in bool) {
	bit := uint64(1) << (level % 64)
	if in {
		s[level/64] |= bit
	} else {
		s[level/64] &^= bit
	}
}

func (s levelSet) has(level int) bool { return s[level/64]>>(level%64)&1 != 0 }

// from gives the highest level in the set that is not higher than level: the
// smallest number >= level. It reports false when there is none.
func (s levelSet) from(level int) (int, bool) {
	word := level / 64
	if word >= len(s) {
		return 0, false
	}
	rest := s[word] >> (level % 64) << (level % 64)
	for rest == 0 {
		word++
		if word == len(s) {
			return 0, false
		}
		rest = s[word]
	}
	return word*64 + bits.TrailingZeros64(rest), true
}
