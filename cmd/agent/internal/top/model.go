package top

import (
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// View is one of the tables.
type View int

// The views, in the order of their keys.
const (
	Queues View = iota
	Levels
	Tenants
	Capsules
	Leases
	Peers

	views
)

// String is the view's name.
func (v View) String() string {
	return [...]string{"queues", "levels", "tenants", "capsules", "leases", "peers"}[v]
}

// ViewOf finds a view by its name.
func ViewOf(name string) (View, bool) {
	for v := range views {
		if v.String() == name {
			return v, true
		}
	}
	return 0, false
}

// Order is how a table is sorted: by a column, which is shown beside its head. The zero value is as the agent lists it.
type Order struct {
	Column int // 1 is the first; 0 is none
	Up     bool
}

// Model is what is on the screen. Its methods return the next one.
type Model struct {
	Colour bool // whether escape sequences for colours may be used
	View   View
	Filter string // only rows that have it; case does not count
	Orders [views]Order

	overview *api.Overview // nil before the first
	at       time.Time     // when it came
	now      time.Time
	lost     error // why there is no newer one; nil while all is well
	width    int
	height   int
	first    int  // row at the top of the table
	typing   bool // the filter
	frozen   bool
	help     bool
}

// Show takes the next overview.
func (m Model) Show(o *api.Overview, now time.Time) Model {
	m.lost, m.now = nil, now
	if !m.frozen {
		m.overview, m.at = o, now
	}
	return m
}

// Lose says that the agent did not answer.
func (m Model) Lose(err error, now time.Time) Model {
	m.lost, m.now = err, now
	return m
}

// Resize takes the terminal's size in cells.
func (m Model) Resize(width, height int) Model {
	m.width, m.height = max(width, 0), max(height, 0)
	return m
}

// Press takes a key by its name, and tells whether it was one that ends the program.
func (m Model) Press(key string) (next Model, quit bool) {
	if key == "ctrl+c" {
		return m, true
	}
	if m.typing {
		return m.typed(key), false
	}
	switch key {
	case "q", "esc":
		if key == "esc" && (m.help || m.Filter != "") {
			m.help, m.Filter = false, ""
			return m, false
		}
		return m, true
	case "1", "2", "3", "4", "5", "6":
		m.View, m.first = View(key[0]-'1'), 0
	case "tab", "right":
		m.View, m.first = (m.View+1)%views, 0
	case "shift+tab", "left":
		m.View, m.first = (m.View+views-1)%views, 0
	case "s":
		o := &m.Orders[m.View]
		*o = Order{Column: (o.Column + 1) % (len(heads[m.View]) + 1)}
	case "r":
		m.Orders[m.View].Up = !m.Orders[m.View].Up
	case "/":
		m.typing = true
	case "p", " ":
		m.frozen = !m.frozen
	case "?", "h":
		m.help = !m.help
	default:
		m.scroll(key)
	}
	return m, false
}

func (m *Model) scroll(key string) {
	switch key {
	case "up", "k":
		m.first--
	case "down", "j":
		m.first++
	case "pgup":
		m.first -= m.room()
	case "pgdown":
		m.first += m.room()
	case "home", "g":
		m.first = 0
	case "end", "G":
		m.first = len(m.rows())
	}
	m.first = max(min(m.first, len(m.rows())-m.room()), 0)
}

// typed takes a key of the filter.
func (m Model) typed(key string) Model {
	m.first = 0
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.Filter = false, ""
	case "backspace":
		if all := []rune(m.Filter); len(all) > 0 {
			m.Filter = string(all[:len(all)-1])
		}
	case "ctrl+u":
		m.Filter = ""
	default:
		if text := []rune(key); len(text) == 1 && len(m.Filter) < 128 {
			m.Filter += key
		}
	}
	return m
}

// rows are those of the table that are to be shown, in their order.
func (m *Model) rows() []row {
	if m.overview == nil {
		return nil
	}
	return arrange(rowsOf(m.View, m.overview), m.Filter, m.Orders[m.View])
}

func matches(r row, filter string) bool {
	for _, c := range r {
		if strings.Contains(strings.ToLower(c.text), filter) {
			return true
		}
	}
	return false
}
