package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "abc", 0},
		{"abc", "", 3},
		{"", "ab", 2},
		{"kitten", "sitting", 3},
		{"prioritty", "priority", 1},
		{"ab", "ba", 2},
	} {
		if got := Distance(row.a, row.b); got != row.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", row.a, row.b, got, row.want)
		}
	}
}
