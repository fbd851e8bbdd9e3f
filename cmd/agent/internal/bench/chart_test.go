package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// element is what the tests look at in a picture.
type element struct {
	name, class, text   string
	x, y, width, height float64
}

// parse reads a picture with a strict XML parser.
func parse(t *testing.T, svg string) (all []element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local}
			for _, a := range token.Attr {
				if a.Name.Local == "class" {
					e.class = a.Value
				}
				if p := map[string]*float64{"x": &e.x, "y": &e.y, "width": &e.width, "height": &e.height}[a.Name.Local]; p != nil {
					if *p, err = strconv.ParseFloat(a.Value, 64); err != nil {
						t.Errorf("%s %s: %v", e.name, a.Name.Local, err)
					}
				}
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += string(token)
			}
		}
	}
}

func drawn(t *testing.T, r *Report) []element {
	t.Helper()
	var out strings.Builder
	if err := r.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	return parse(t, out.String())
}

func TestThePictureShowsEverything(t *testing.T) {
	all := drawn(t, measured(700, 750, 800))
	texts, classes := "", map[string]int{}
	var page element
	for _, e := range all {
		texts += e.text + "\n"
		classes[e.class]++
		switch {
		case e.class == "page":
			page = e
		case e.name == "rect" && (e.x < 0 || e.width < 1 || e.x+e.width > plotRight+0.1 || e.y+e.height > page.height):
			t.Errorf("outside: %+v", e)
		}
	}
	for _, want := range []string{
		"messages per second", "milliseconds from publish to worker, logarithmic", "bare loop", "1 level, no keys", "750/s, 0.75 of bare",
		plainName, "Fairlead", "1.33 ms, 99.0% in time", "2 agents", "shares within 0.00%, 1.0% in vain", "take with 1,000 waiting",
		"A <fast> one & more", "prefers-color-scheme: dark", "1 level, no keys with 1 connection: 0.75 of a bare JetStream loop",
	} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is not in the picture:\n%s", want, texts)
		}
	}
	// A line for the bare loop and one for a single agent; a whisker of three lines for each bar whose rounds differ.
	if classes["baseline"] != 2 || classes["whisker"] != 3*(1+4+2) {
		t.Errorf("classes %v", classes)
	}
}

// A bar is as long as its value says.
func TestBarsAreInProportion(t *testing.T) {
	var bars []element
	for _, e := range drawn(t, &Report{Rows: measured(500, 500, 500).Rows}) {
		if e.name == "rect" && e.class != "page" {
			bars = append(bars, e)
		}
	}
	if len(bars) != 2 || bars[0].class != "base" || bars[1].class != "ours" || bars[1].width/bars[0].width < 0.499 || bars[1].width/bars[0].width > 0.501 {
		t.Errorf("%+v", bars)
	}
}

func TestScales(t *testing.T) {
	for _, c := range []struct {
		values []float64
		log    bool
		first  float64
		last   float64
	}{
		{[]float64{33_000, 20_000}, false, 0, 40_000},
		{[]float64{0.7, 0.2}, false, 0, 0.8},
		{[]float64{1}, false, 0, 1},
		{nil, false, 0, 1},
		{[]float64{0}, true, 0, 1},
		{[]float64{4.2, 3100}, true, 1, 10_000},
		{[]float64{0.7}, true, 0.1, 1},
		{[]float64{1000}, true, 100, 1000},
	} {
		p := panel{log: c.log, groups: []group{{}}}
		for _, v := range c.values {
			p.groups[0].bars = append(p.groups[0].bars, bar{value: v})
		}
		ticks := newScale(&p).ticks()
		first, last := ticks[0], ticks[len(ticks)-1]
		if near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }; !near(first, c.first) || !near(last, c.last) || len(ticks) > 8 {
			t.Errorf("%v: ticks %v, want %v to %v", c.values, ticks, c.first, c.last)
		}
	}
}

func TestAnEmptyReportIsStillAPicture(t *testing.T) {
	if all := drawn(t, &Report{}); len(all) == 0 || all[0].name != "svg" {
		t.Errorf("%+v", all)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestAPictureThatCannotBeWrittenIsToldOf(t *testing.T) {
	if err := measured(1).WriteSVG(fullDisk{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
