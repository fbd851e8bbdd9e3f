package broker

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHandles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(0, rapid.Int64Range(0, int64(200*365*24*time.Hour)).Draw(t, "at"))
		h := newHandle(at)
		got, ok := parseHandle(h)
		if !ok || got.Before(at) || got.Sub(at) >= time.Microsecond {
			t.Fatalf("%v became %v, %t", at, got, ok)
		}
		if other := newHandle(at); other == h {
			t.Fatalf("two have the handle %s", h)
		}
		d := delayed{due: rapid.Bool().Draw(t, "due"), class: "p3", token: "a=2E", handle: h, at: got}
		if back, ok := parseDelayed(d.subject()); !ok || back != d {
			t.Fatalf("%+v became %+v, %t", d, back, ok)
		}
	})
}

// Later times have later handles, so that names alone say who comes first.
func TestHandlesSortByTime(t *testing.T) {
	early, late := newHandle(time.UnixMicro(999)), newHandle(time.UnixMicro(46_656_000_000))
	if early >= late {
		t.Errorf("%s does not come before %s", early, late)
	}
}

func TestWhatIsNoHandle(t *testing.T) {
	good := newHandle(time.Unix(1_800_000_000, 0))
	for _, bad := range []string{
		"", "x", "*", ">", good + "0", good[1:], strings.ToUpper(good), strings.Replace(good, "-", "_", 1), strings.Replace(good, "-", ".", 1),
		"*" + good[1:], good[:len(good)-1] + ">", good[:len(good)-1] + " ", good[:len(good)-1] + "z", "-" + good[1:],
	} {
		if at, ok := parseHandle(bad); ok {
			t.Errorf("%q is read as %v", bad, at)
		}
	}
	for _, bad := range []string{
		"at.p0.a." + good + ".x", "at.p0." + good, "x.p0.a." + good, "at.p00.a." + good, "at.d.=ZZ." + good, "due.d.a.x", "",
	} {
		if d, ok := parseDelayed(bad); ok {
			t.Errorf("%q is read as %+v", bad, d)
		}
	}
}
