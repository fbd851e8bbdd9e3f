package group

import "testing"

func TestDecideWhenOutranked(t *testing.T) {
	value, err := writeDefinition(queue("orders", 2, 2), "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		carried bool
		force   *force
		want    verdict
	}{
		{"nobody's", false, readDefinition("orders", value, 7), follow},
		{"of a lower revision", true, readDefinition("orders", value, 7), follow},
		{"unusable", false, readDefinition("orders", []byte("{"), 7), keep},
		{"nothing in force", false, nil, replace}, // the higher one can follow, and what is first need not wait
	} {
		s := situation{own: stampOf(queue("orders", 3, 1)), force: c.force, carried: c.carried, outranked: true, announced: true, seen: true}
		if got := decide(s); got != c.want {
			t.Errorf("%s: decide = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	stored := func(revision, size int64) *force {
		q := queue("orders", revision, size)
		value, err := writeDefinition(q, "other")
		if err != nil {
			t.Fatal(err)
		}
		return readDefinition("orders", value, 7)
	}
	unusable := func(revision int64) *force {
		f := stored(revision, 2)
		f.problem, f.here = "unknown settings: x", ""
		return f
	}
	const (
		no  = false
		yes = true
	)
	for _, c := range []struct {
		name                     string
		revision                 int64 // of our file, whose size is 1
		force                    *force
		carried, announced, seen bool
		want                     verdict
	}{
		{"nothing in force, nothing seen", 0, nil, no, yes, no, look},
		{"nothing in force", 0, nil, no, yes, yes, replace},
		{"nothing in force, not announced", 0, nil, no, no, yes, announce},
		{"ours in force", 0, stored(0, 1), no, yes, no, follow},
		{"ours in force, others carry it too", 0, stored(0, 1), yes, yes, yes, follow},
		{"ours in force, unknown to others", 0, stored(0, 1), no, no, yes, announce},
		{"equal revision, carried", 0, stored(0, 2), yes, yes, yes, follow},
		{"equal revision, carried, nothing seen", 0, stored(0, 2), yes, yes, no, follow},
		{"equal revision, nobody's, nothing seen", 0, stored(0, 2), no, yes, no, look},
		{"equal revision, nobody's", 0, stored(0, 2), no, yes, yes, replace},
		{"lower revision, carried", 1, stored(2, 2), yes, yes, yes, follow},
		{"lower revision, nobody's", 1, stored(2, 2), no, yes, yes, replace},
		{"lower revision, same settings, carried", 1, stored(2, 1), yes, yes, yes, follow},
		{"higher revision, carried", 3, stored(2, 2), yes, yes, yes, replace},
		{"higher revision, nothing seen", 3, stored(2, 2), yes, yes, no, look},
		{"higher revision, not announced", 3, stored(2, 2), yes, no, yes, announce},
		{"unusable, carried", 1, unusable(2), yes, yes, yes, keep},
		{"unusable, nobody's", 1, unusable(2), no, yes, yes, replace},
		{"unusable, lower", 3, unusable(2), yes, yes, yes, replace},
		{"unreadable", 0, readDefinition("orders", []byte("{"), 7), no, yes, yes, replace},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := situation{own: stampOf(queue("orders", c.revision, 1)), force: c.force, carried: c.carried, announced: c.announced, seen: c.seen}
			if got := decide(s); got != c.want {
				t.Errorf("decide = %d, want %d", got, c.want)
			}
		})
	}
}
