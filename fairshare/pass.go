package fairshare

// TurnCost is what one turn of weight [One] adds to a key's pass: the unit in
// which [KeyState.Ahead] is to be read.
const TurnCost = 1_441_440_000

// scale is the cost of a turn times its weight; a turn of weight w costs
// scale/w. Two properties matter:
//
//   - scale >= MaxWeight². Then two different multiples n*scale/v and m*scale/w
//     lie more than one unit apart, so that comparing passes by their whole
//     units alone orders them exactly as the rational numbers would be.
//   - scale = 2 * 10^6 * lcm(1..16): the weights that people write divide it,
//     and their passes have no fraction at all.
const scale = TurnCost * int64(One)

// pass is a point on the virtual time line: units + num/den, with num < den.
// The denominator is the weight of the last turn that was added, so that n
// turns of one weight add up to n*scale/w exactly, however large n is. Changing
// the denominator rounds down by less than 1/den of a unit; a unit is less than
// the billionth part of a turn of weight One.
//
// The zero value is the origin.
type pass struct {
	units uint64
	num   uint32
	den   uint32
}

// at is the pass that lies on whole units.
func at(units uint64) pass { return pass{units: units} }

// over expresses the fraction in parts of w.
func (p *pass) over(w Weight) {
	if p.den == uint32(w) {
		return
	}
	if p.num != 0 {
		p.num = uint32(uint64(p.num) * uint64(w) / uint64(p.den))
	}
	p.den = uint32(w)
}

// add moves p forward by one turn of weight w, which must be valid.
func (p *pass) add(w Weight) {
	p.over(w)
	p.units += uint64(scale) / uint64(w)
	p.num += uint32(uint64(scale) % uint64(w))
	if p.num >= p.den {
		p.num -= p.den
		p.units++
	}
}

// sub takes back one turn of weight w. It is the exact inverse of add as long
// as all that was added since had the same weight, in whatever order.
func (p *pass) sub(w Weight) {
	p.over(w)
	part := uint32(uint64(scale) % uint64(w))
	p.units -= uint64(scale) / uint64(w)
	if p.num < part {
		p.num += p.den
		p.units--
	}
	p.num -= part
}

// back moves p towards the origin by whole units, and no further than to it.
func (p *pass) back(units uint64) {
	if p.units < units {
		*p = pass{}
		return
	}
	p.units -= units
}
