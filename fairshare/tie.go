package fairshare

// tie ranks keys whose passes are equal. It is a fixed function of seed and
// key, so that one agent always breaks the same tie the same way, while agents
// with different seeds walk through equal keys in different orders. With one
// order for all, many agents would ask the same few lanes at the same time, and
// all but one would come back with nothing.
//
// FNV-1a (Fowler, Noll, Vo) over the key, seeded through its initial state, and
// finished with the mixer of SplitMix64 (Steele, Lea, Flood 2014), because the
// high bits of FNV of short keys hardly differ. Two keys with equal hashes are
// ordered by the keys themselves: collisions cost a comparison, not fairness.
func tie(seed uint64, key string) uint64 {
	const (
		offset = 0xcbf29ce484222325
		prime  = 0x100000001b3
	)
	h := offset ^ mix(seed)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return mix(h)
}

// mix spreads every bit of x over all bits of the result, one to one.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
