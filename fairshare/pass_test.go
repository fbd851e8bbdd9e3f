package fairshare

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestScaleSeparatesWhatDiffers(t *testing.T) {
	if scale < int64(MaxWeight)*int64(MaxWeight) {
		t.Errorf("scale %d is below MaxWeight squared: different passes may look alike", scale)
	}
	for w := One; w <= 16*One; w += One {
		if scale%int64(w) != 0 {
			t.Errorf("the weight %d leaves a fraction", w)
		}
	}
}

// n turns of one weight cost floor(n*scale/w), however they are counted.
func TestPassDoesNotDrift(t *testing.T) {
	for _, w := range []Weight{1, 2, 3, 7, 999, 1000, 1001, 3000, 17_000, 333_333, 999_983, MaxWeight} {
		var p pass
		for n := int64(1); n <= 20_000; n++ {
			p.add(w)
			want := new(big.Int).Mul(big.NewInt(n), big.NewInt(scale))
			want.Div(want, big.NewInt(int64(w)))
			if want.Cmp(new(big.Int).SetUint64(p.units)) != 0 {
				t.Fatalf("weight %d, turn %d: pass %d, want %s", w, n, p.units, want)
			}
		}
	}
}

// Taking back, in any order, is exact for one weight, and within a unit per
// change of the weight otherwise.
func TestPassTakesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Int32Range(1, int32(MaxWeight)), 1, 20).Draw(t, "weights")
		p := at(uint64(scale))
		for _, w := range weights {
			p.add(Weight(w))
		}
		for _, i := range rapid.Permutation(indices(len(weights))).Draw(t, "order") {
			p.sub(Weight(weights[i]))
		}
		off := int64(p.units) - scale
		if off < -int64(2*len(weights)) || off > int64(2*len(weights)) {
			t.Errorf("off by %d units after %v", off, weights)
		}
		if same(weights) && (off != 0 || p.num != 0) {
			t.Errorf("off by %d + %d/%d units although all weights were %d", off, p.num, p.den, weights[0])
		}
	})
	w := Weight(999_983)
	var p pass
	for range 1000 {
		p.add(w)
	}
	for range 1000 {
		p.sub(w)
	}
	if p.units != 0 || p.num != 0 {
		t.Errorf("1000 turns and back: %+v", p)
	}
}

// A fraction goes along when the weight changes, rounded down to the new denominator.
func TestPassKeepsItsFraction(t *testing.T) {
	for _, tt := range []struct {
		have pass
		w    Weight
		want pass
	}{
		{pass{5, 3, 7}, 1000, pass{5, 428, 1000}},
		{pass{5, 999, 1000}, 3, pass{5, 2, 3}},
		{pass{5, 0, 7}, 1000, pass{5, 0, 1000}},
		{pass{5, 3, 7}, 7, pass{5, 3, 7}},
	} {
		if tt.have.over(tt.w); tt.have != tt.want {
			t.Errorf("over %d: %+v, want %+v", tt.w, tt.have, tt.want)
		}
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func same(weights []int32) bool {
	for _, w := range weights {
		if w != weights[0] {
			return false
		}
	}
	return true
}
