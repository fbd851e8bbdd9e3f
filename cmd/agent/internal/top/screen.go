package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/cmd/agent/internal/plain"
)

// style is how a text looks, as a parameter of an escape sequence; "" is plain.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	amber  style = "33"
	blue   style = "34"
	invert style = "7"
)

// levelStyles are those of levels, from the highest on.
var levelStyles = []style{"31", "33", "34", "36", "35", "37"}

func (m *Model) paint(s style, text string) string {
	if !m.Colour || s == "" || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

const (
	linesAbove = 6 // title, totals, verdict, a blank line, views, heads
	linesBelow = 1 // help
)

// room is how many rows of the table fit.
func (m *Model) room() int { return max(m.height-linesAbove-linesBelow, 1) }

// Screen is what the terminal shows: at most as many lines as it has, none wider than it is.
func (m Model) Screen() string {
	if m.width <= 0 || m.height <= 0 {
		return "" // its size is not known yet
	}
	lines := []string{m.title()}
	if m.help {
		lines = append(lines, helpLines...)
	} else if m.overview != nil {
		lines = append(lines, m.totals(), m.verdict(), "", m.tabs())
		lines = append(lines, m.table()...)
	} else {
		lines = append(lines, "", "waiting for the agent's first numbers…")
	}
	if most := max(m.height-linesBelow, 1); len(lines) > most {
		lines = lines[:most]
	}
	for len(lines) < m.height-linesBelow {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines, m.footer())
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *Model) title() string {
	parts := []string{m.paint(bold, "fairlead top")}
	switch { // first what is wrong: a narrow terminal cuts the rest
	case m.lost != nil && m.overview == nil:
		parts = append(parts, m.paint(red, "no agent: "+plain.Text(m.lost.Error())))
	case m.lost != nil:
		parts = append(parts, m.paint(red, "reconnecting, this is "+plain.Seconds(m.now.Sub(m.at).Seconds())+" old"))
	case m.frozen:
		parts = append(parts, m.paint(amber, "held (p goes on)"))
	case m.overview != nil:
		parts = append(parts, m.paint(green, "live"))
	}
	if m.overview == nil {
		return strings.Join(parts, " · ")
	}
	s := m.overview.Status
	broker := m.paint(green, "NATS connected")
	if !s.Broker.Connected {
		broker = m.paint(red, "NATS is away")
	}
	parts = append(parts, plain.Text(s.Agent), s.State, broker, "up "+plain.Seconds(s.UptimeSeconds))
	if m.lost != nil {
		parts = append(parts, plain.Text(m.lost.Error()))
	}
	return strings.Join(parts, " · ")
}

// totals are of all queues.
func (m *Model) totals() string {
	var waiting, inFlight, dead uint64
	var rate, oldest float64
	for i := range m.overview.Queues {
		q := &m.overview.Queues[i]
		waiting, inFlight, dead, rate = waiting+q.Waiting, inFlight+q.InFlight, dead+q.Dead, rate+q.DeliveredPerSecond
		if q.Waiting+q.InFlight > 0 {
			oldest = max(oldest, q.OldestAgeSeconds)
		}
	}
	return fmt.Sprintf("%d waiting · %d in flight · %.1f delivered/s by this agent · oldest %s · %d dead",
		waiting, inFlight, rate, span(oldest, waiting+inFlight > 0).text, dead)
}

// verdict is what to look at first: a problem, else the first queue with a noisy neighbour.
func (m *Model) verdict() string {
	if p := m.overview.Problem; p != "" {
		return m.paint(red, plain.Text(p))
	}
	for i := range m.overview.Queues {
		if said := noisy(&m.overview.Queues[i]); said != "" {
			return m.paint(amber, said)
		}
	}
	if all := m.overview.Status.Warnings; len(all) > 0 {
		return m.paint(amber, plain.Text(all[0]))
	}
	return "no tenant is noisy"
}

// noisy tells of a queue's noisy tenants, and whether the quiet ones suffer; "" when there are none.
func noisy(q *api.QueueOverview) string {
	if q.Noisy.Tenants == 0 {
		return ""
	}
	who := fmt.Sprintf("%d tenants are noisy", q.Noisy.Tenants)
	if q.Noisy.Tenants == 1 {
		for _, t := range q.Tenants {
			if t.Noisy {
				who = plain.Text(plain.Key(t.Key)) + " is noisy"
			}
		}
	}
	said := fmt.Sprintf("%s: %s, %d waiting, %.0f%% of the deliveries (fair %.0f%%)", plain.Text(q.Name), who, q.Noisy.Waiting, 100*q.Noisy.Share, 100*q.Noisy.Fair)
	if q.Quiet.Deliveries > 0 {
		said += "; quiet tenants waited " + span(q.Quiet.WaitedSeconds, true).text
	}
	return said
}

func (m *Model) tabs() string {
	var parts []string
	for v := range views {
		name := fmt.Sprintf(" %d %s ", v+1, v)
		switch {
		case v == m.View && m.Colour:
			name = m.paint(invert, name)
		case v == m.View:
			name = fmt.Sprintf("[%d %s]", v+1, v)
		}
		parts = append(parts, name)
	}
	tabs := strings.Join(parts, "")
	if m.typing || m.Filter != "" {
		tabs += "  filter: " + plain.Text(m.Filter)
		if m.typing {
			tabs += "_"
		}
	}
	return tabs
}

// table is the heads, and the rows that fit.
func (m *Model) table() []string {
	rows := m.rows()
	first := max(min(m.first, len(rows)-m.room()), 0)
	shown := rows[first:min(first+m.room(), len(rows))]
	widths := fit(heads[m.View], rows, m.Orders[m.View], m.width)
	names := make(row, len(widths))
	for i, h := range heads[m.View] {
		names[i] = cell{text: headName(h, i, m.Orders[m.View])}
	}
	lines := []string{m.paint(bold, m.line(names, widths, true))}
	for _, r := range shown {
		lines = append(lines, m.line(r, widths, false))
	}
	if len(rows) == 0 {
		lines = append(lines, m.paint(faint, "nothing"+map[bool]string{true: " that has the filter's text"}[m.Filter != ""]))
	}
	return lines
}

// headName marks the column that is sorted by.
func headName(h head, i int, o Order) string {
	switch {
	case o.Column != i+1:
		return h.name
	case o.Up:
		return h.name + "^"
	}
	return h.name + "v"
}

// fit returns the columns' widths: as wide as their cells, but for flexible ones where that is too wide for the screen. All
// rows count, so that scrolling moves no column.
func fit(hs []head, rows []row, o Order, width int) []int {
	widths := make([]int, len(hs))
	sum := 2 * (len(hs) - 1)
	for i, h := range hs {
		widths[i] = ansi.StringWidth(headName(h, i, o))
		for _, r := range rows {
			widths[i] = max(widths[i], ansi.StringWidth(r[i].text))
		}
		sum += widths[i]
	}
	const least = 12
	for i, h := range hs {
		if over := sum - width; h.flexible && over > 0 && widths[i] > least {
			cut := min(over, widths[i]-least)
			widths[i] -= cut
			sum -= cut
		}
	}
	return widths
}

func (m *Model) line(r row, widths []int, names bool) string {
	var b strings.Builder
	for i, c := range r {
		if i > 0 {
			b.WriteString("  ")
		}
		text := ansi.Truncate(c.text, widths[i], "…")
		pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(text))
		if !names {
			text = m.cell(c, text)
		}
		if heads[m.View][i].right {
			b.WriteString(pad + text)
		} else {
			b.WriteString(text + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cell colours a text that has its width already.
func (m *Model) cell(c cell, text string) string {
	if !c.bar || !m.Colour {
		return m.paint(c.style, text)
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteString(m.paint(levelStyles[min(max(int(r-'0'), 0), len(levelStyles)-1)], string(r)))
	}
	return b.String()
}

func (m *Model) footer() string {
	if m.typing {
		return m.paint(faint, "type what rows must have · enter keeps it · esc drops it")
	}
	return m.paint(faint, "1-6 view · s sort · r reverse · / filter · p hold · ↑↓ scroll · ? help · q quit")
}

var helpLines = []string{
	"",
	"  1 to 6, tab     queues, levels, tenants, capsules, leases, peers",
	"  s, r            sort by the next column; the other way round",
	"  /               show only rows that have a text; esc shows all again",
	"  p               hold the picture, and go on",
	"  ↑ ↓ PgUp PgDn   scroll; g and G: to the first and the last row",
	"  ?               this help",
	"  q               quit",
	"",
	"  Waiting and in flight are of all agents. Deliveries per second, shares and waits are of this agent,",
	"  over the last 5 seconds. A tenant's fair share is its part of the weights of all that are active; one",
	"  with less to do gets less without waiting, and what it leaves goes to others.",
}
