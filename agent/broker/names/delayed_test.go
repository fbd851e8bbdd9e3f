package names

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHandles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(0, rapid.Int64Range(0, int64(200*365*24*time.Hour)).Draw(t, "at"))
		h := NewHandle(at)
		got, ok := ParseHandle(h)
		if !ok || got.Before(at) || got.Sub(at) >= time.Microsecond {
			t.Fatalf("%v became %v, %t", at, got, ok)
		}
		if other := NewHandle(at); other == h {
			t.Fatalf("two have the handle %s", h)
		}
		d := Delayed{Due: rapid.Bool().Draw(t, "due"), Class: "p3", Token: "a=2E", Handle: h, At: got}
		if back, ok := ParseDelayed(d.Subject()); !ok || back != d {
			t.Fatalf("%+v became %+v, %t", d, back, ok)
		}
	})
}

// Later times have later handles, so that names alone say who comes first.
func TestHandlesSortByTime(t *testing.T) {
	early, late := NewHandle(time.UnixMicro(999)), NewHandle(time.UnixMicro(46_656_000_000))
	if early >= late {
		t.Errorf("%s does not come before %s", early, late)
	}
}

func TestWhatIsNoHandle(t *testing.T) {
	good := NewHandle(time.Unix(1_800_000_000, 0))
	for _, bad := range []string{
		"", "x", "*", ">", good + "0", good[1:], strings.ToUpper(good), strings.Replace(good, "-", "_", 1), strings.Replace(good, "-", ".", 1),
		"*" + good[1:], good[:len(good)-1] + ">", good[:len(good)-1] + " ", good[:len(good)-1] + "z", "-" + good[1:],
	} {
		if at, ok := ParseHandle(bad); ok {
			t.Errorf("%q is read as %v", bad, at)
		}
	}
	for _, bad := range []string{
		"at.p0.a." + good + ".x", "at.p0." + good, "x.p0.a." + good, "at.p00.a." + good, "at.d.=ZZ." + good, "due.d.a.x", "",
	} {
		if d, ok := ParseDelayed(bad); ok {
			t.Errorf("%q is read as %+v", bad, d)
		}
	}
}
