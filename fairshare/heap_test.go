package fairshare

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The heap agrees with a sorted list under any mix of operations, with few
// distinct ranks and hashes, so that ties of both kinds are common.
func TestHeapIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap
		var in []*entry
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			op := rapid.IntRange(0, 4).Draw(t, "op")
			switch {
			case op <= 2 || len(in) == 0:
				e := &entry{
					key:    string(rune('a'+step%26)) + string(rune('a'+step/26)),
					tie:    rapid.Uint64Range(0, 3).Draw(t, "tie"),
					active: true, tentative: at(rapid.Uint64Range(0, 5).Draw(t, "rank")),
				}
				in = append(in, e)
				h.push(e)
			case op == 3:
				e := in[rapid.IntRange(0, len(in)-1).Draw(t, "which")]
				e.tentative = at(rapid.Uint64Range(0, 5).Draw(t, "rank"))
				h.fix(e)
			default:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "which")
				h.remove(in[i])
				in = slices.Delete(in, i, i+1)
			}
			checkHeap(t, &h, in)
		}
	})
}

func checkHeap(t *rapid.T, h *heap, in []*entry) {
	if h.len() != len(in) {
		t.Fatalf("%d entries, want %d", h.len(), len(in))
	}
	for i, it := range h.items {
		if int(it.e.index) != i || it.rank != it.e.rank() || it.tie != it.e.tie {
			t.Fatalf("item %d is out of date: %+v", i, it)
		}
		if i > 0 && it.before(&h.items[(i-1)/arity]) {
			t.Fatalf("item %d comes before its parent", i)
		}
	}
	if len(in) == 0 {
		return
	}
	least := slices.MinFunc(in, func(a, b *entry) int {
		switch {
		case a.rank() != b.rank():
			return int(a.rank()) - int(b.rank())
		case a.tie != b.tie:
			return int(a.tie) - int(b.tie)
		case a.key < b.key:
			return -1
		default:
			return 1
		}
	})
	if h.first() != least {
		t.Fatalf("first is %s, want %s", h.first().key, least.key)
	}
}

func TestTieOrderDependsOnTheSeed(t *testing.T) {
	const pairs = 2000
	swapped := 0
	for i := range pairs {
		a, b := "tenant-"+string(rune('a'+i%26)), "tenant-"+string(rune('A'+i/26%26))+string(rune('0'+i/676))
		if (tie(1, a) < tie(1, b)) != (tie(2, a) < tie(2, b)) {
			swapped++
		}
		first := tie(7, a)
		if first != tie(7, a) || first == tie(7, b) {
			t.Fatalf("%q and %q: not a function of the key", a, b)
		}
	}
	if swapped < pairs*45/100 || swapped > pairs*55/100 {
		t.Errorf("another seed swaps %d of %d pairs, want about half", swapped, pairs)
	}
}
