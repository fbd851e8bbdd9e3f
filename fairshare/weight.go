package fairshare

// Weight is how large a share a key is due, in thousandths: 1000 is a weight
// of one, 3000 is due three turns for each turn of a key that weighs 1000.
// Valid weights are 1 (0.001) to [MaxWeight] (1000). Any other value, the zero
// value included, counts as [One] wherever this package takes a weight: a
// poisoned weight must never stall or favour anybody. Whoever reads weights
// from outside checks them with [Weight.Valid] first and counts the bad ones.
type Weight int32

const (
	// One is the weight of a key about which nothing else is known.
	One Weight = 1000
	// MinWeight is the smallest valid weight, one thousandth.
	MinWeight Weight = 1
	// MaxWeight is the largest valid weight, one thousand.
	MaxWeight Weight = 1_000_000
)

// Valid reports whether w lies in [MinWeight, MaxWeight].
func (w Weight) Valid() bool { return w >= MinWeight && w <= MaxWeight }

// orOne gives w, or One when w is not valid.
func (w Weight) orOne() Weight {
	if w.Valid() {
		return w
	}
	return One
}
