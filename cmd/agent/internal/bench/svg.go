package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
)

// panel is one chart of horizontal bars.
type panel struct {
	title  string
	axis   string // what the axis shows, with its unit
	log    bool   // a logarithmic axis; else it begins at 0
	groups []group
}

// group are bars that belong together.
type group struct {
	title    string
	base     float64 // a line across the group that the bars are measured by; 0 is none
	baseText string
	bars     []bar
}

type bar struct {
	label     string
	value     float64
	low, high float64 // of the rounds: the whisker; equal for none
	text      string  // behind the bar
	class     string  // base, ours or other: its colour
}

// The measures of a chart, in pixels.
const (
	chartWidth  = 860
	plotLeft    = 210
	plotRight   = 620
	textLeft    = plotRight + 16 // of the texts behind bars: clear of every line
	barHeight   = 18
	barStep     = 26
	groupHead   = 26
	panelHead   = 40
	panelFoot   = 54
	sideMargin  = 16
	topMargin   = 14
	footerSpace = 26
)

// style holds for light and for dark surroundings: a picture in a page cannot ask the page, only the system.
const style = `
    .page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
    .title { font-size: 16px; font-weight: 600 } .group { font-weight: 600 } .small, .tick { font-size: 12px; fill: #59636e }
    .grid { stroke: #d1d9e0; stroke-width: 1 } .baseline { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 4 3 }
    .whisker { stroke: #1f2328; stroke-width: 1.5 } .base { fill: #8c959f } .ours { fill: #0969da } .other { fill: #bc4c00 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 } text { fill: #f0f6fc } .small, .tick { fill: #9198a1 } .grid { stroke: #3d444d }
      .baseline, .whisker { stroke: #f0f6fc } .base { fill: #656c76 } .ours { fill: #4493f8 } .other { fill: #db6d28 }
    }
  `

// drawing writes a picture. The first error stays.
type drawing struct {
	out io.Writer
	err error
}

func (d *drawing) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.out, format, args...)
	}
}

func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.printf("  <text x=\"%s\" y=\"%s\" class=\"%s\" text-anchor=\"%s\">%s</text>\n", px(x), px(y), class, anchor, html.EscapeString(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	d.printf("  <line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" class=\"%s\"/>\n", px(x1), px(y1), px(x2), px(y2), class)
}

// px writes a length to a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// height of a panel.
func (p *panel) height() float64 {
	h := panelHead + panelFoot
	for _, g := range p.groups {
		h += groupHead + len(g.bars)*barStep
	}
	return float64(h)
}

// draw writes panels, one under the other, as an SVG file. summary is what the picture says in words.
func draw(out io.Writer, summary, footer string, panels []panel) error {
	height := float64(topMargin + footerSpace)
	for i := range panels {
		height += panels[i].height()
	}
	d := &drawing{out: out}
	d.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %s\" width=\"%d\" height=\"%s\" role=\"img\" aria-labelledby=\"title desc\">\n",
		chartWidth, px(height), chartWidth, px(height))
	d.printf("  <title id=\"title\">Fairlead bench</title>\n  <desc id=\"desc\">%s</desc>\n  <style>%s</style>\n", html.EscapeString(summary), style)
	d.printf("  <rect class=\"page\" width=\"%d\" height=\"%s\"/>\n", chartWidth, px(height))
	y := float64(topMargin)
	for i := range panels {
		d.panel(&panels[i], y)
		y += panels[i].height()
	}
	d.text(sideMargin, y+8, "small", "start", footer)
	d.printf("</svg>\n")
	return d.err
}

func (d *drawing) panel(p *panel, top float64) {
	s := newScale(p)
	d.text(sideMargin, top+20, "title", "start", p.title)
	bottom := top + p.height() - panelFoot
	for _, tick := range s.ticks() {
		x := s.at(tick)
		d.line(x, top+panelHead, x, bottom, "grid")
		d.text(x, bottom+18, "tick", "middle", s.name(tick))
	}
	d.text((plotLeft+plotRight)/2, bottom+36, "small", "middle", p.axis)
	y := top + panelHead
	for _, g := range p.groups {
		d.group(&g, s, y)
		y += groupHead + float64(len(g.bars)*barStep)
	}
}

func (d *drawing) group(g *group, s *scale, top float64) {
	d.text(sideMargin, top+17, "group", "start", g.title)
	y := top + groupHead
	for _, b := range g.bars {
		right := s.at(b.value)
		d.text(plotLeft-10, y+barHeight-4, "label", "end", b.label)
		d.printf("  <rect x=\"%d\" y=\"%s\" width=\"%s\" height=\"%d\" rx=\"2\" class=\"%s\"/>\n", plotLeft, px(y), px(max(right-plotLeft, 1)), barHeight, b.class)
		if b.high > b.low {
			middle := y + barHeight/2.0
			d.line(s.at(b.low), middle, s.at(b.high), middle, "whisker")
			d.line(s.at(b.low), middle-4, s.at(b.low), middle+4, "whisker")
			d.line(s.at(b.high), middle-4, s.at(b.high), middle+4, "whisker")
		}
		d.text(textLeft, y+barHeight-4, "small", "start", b.text)
		y += barStep
	}
	if g.base > 0 {
		x := s.at(g.base)
		d.line(x, top+groupHead-4, x, y-4, "baseline")
		d.text(x, top+17, "small", "middle", g.baseText)
	}
}

// scale places values.
type scale struct {
	log       bool
	low, high float64
}

func newScale(p *panel) *scale {
	s := &scale{log: p.log, low: math.Inf(1)}
	for _, g := range p.groups {
		s.high = max(s.high, g.base)
		for _, b := range g.bars {
			s.high = max(s.high, b.value, b.high)
			if b.value > 0 {
				s.low = min(s.low, b.value)
			}
		}
	}
	switch {
	case s.high <= 0: // nothing was measured
		s.low, s.high, s.log = 0, 1, false
	case !s.log:
		s.low = 0
		step := niceStep(s.high)
		s.high = math.Ceil(s.high/step) * step
	default:
		s.low, s.high = math.Pow(10, math.Floor(math.Log10(s.low*0.99))), math.Pow(10, math.Ceil(math.Log10(s.high)))
		if s.high <= s.low {
			s.high = s.low * 10
		}
	}
	return s
}

// niceStep is a round number of which there are about five up to high.
func niceStep(high float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(high/5)))
	for _, step := range []float64{1, 2, 5} {
		if high/(step*unit) <= 6 {
			return step * unit
		}
	}
	return 10 * unit
}

func (s *scale) at(v float64) float64 {
	part := 0.0
	switch {
	case !s.log:
		part = v / s.high
	case v > 0:
		part = (math.Log10(v) - math.Log10(s.low)) / (math.Log10(s.high) - math.Log10(s.low))
	}
	return plotLeft + min(max(part, 0), 1)*(plotRight-plotLeft)
}

func (s *scale) ticks() []float64 {
	var ticks []float64
	if s.log {
		for v := s.low; v <= s.high*1.001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := niceStep(s.high)
	for i := 0; float64(i)*step <= s.high*1.001; i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

// name writes a tick in few characters.
func (s *scale) name(v float64) string {
	if v >= 10_000 {
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	}
	text := strconv.FormatFloat(v, 'f', 6, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
