package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/cmd/agent/internal/plain"
)

// cell is one place of a table. Its text is printable.
type cell struct {
	text  string
	value float64 // to sort by; words are sorted by their text
	word  bool
	style style
	bar   bool // its characters have colours of their own
}

type row []cell

// head is a column. Numbers stand to the right; flexible columns give way where there is no room.
type head struct {
	name     string
	right    bool
	flexible bool
}

var heads = [views][]head{
	Queues: {{name: "QUEUE"}, {"WAITING", true, false}, {"IN FLIGHT", true, false}, {"DELAYED", true, false}, {"DEAD", true, false}, {"/S", true, false}, {"OLDEST", true, false},
		{name: "WAITING BY LEVEL"}, {"TENANTS", true, false}, {"NOISY", true, false}, {"QUIET WAITED", true, false}, {"NOISY WAITED", true, false}},
	Levels: {{name: "QUEUE"}, {"LEVEL", true, false}, {name: "NAME"}, {"WAITING", true, false}, {"IN FLIGHT", true, false}, {"DELAYED", true, false}, {"/S", true, false}, {"OLDEST", true, false}},
	Tenants: {{name: "QUEUE"}, {"TENANT", false, true}, {"WAITING", true, false}, {"IN FLIGHT", true, false}, {"WEIGHT", true, false}, {"/S", true, false}, {name: "SHARE, FAIR |"}, {"SHARE", true, false},
		{"FAIR", true, false}, {"WAITED", true, false}, {"LONGEST", true, false}, {"OLDEST", true, false}},
	Capsules: {{name: "CAPSULE"}, {name: "QUEUE"}, {"IN FLIGHT", true, false}, {"OF", true, false}, {"CREDIT", true, false}, {"DELIVERED", true, false}, {"NOW", false, true}},
	Leases:   {{name: "QUEUE"}, {"HOLDER", false, true}, {"FENCE", true, false}, {"FOR", true, false}, {name: "CAPSULE"}, {name: "PART"}},
	Peers:    {{"PEER", false, true}, {name: "CAPSULE"}, {"PRIORITY", true, false}, {name: "ROLE"}, {"HEARD", true, false}, {"QUEUES", false, true}},
}

func word(s string) cell       { return cell{text: plain.Text(s), word: true} }
func whole(n uint64) cell      { return cell{text: strconv.FormatUint(n, 10), value: float64(n)} }
func perSecond(n float64) cell { return cell{text: fmt.Sprintf("%.1f", n), value: n} }
func percent(p float64) cell   { return cell{text: fmt.Sprintf("%.1f%%", 100*p), value: p} }

// span is a time, or a dash where there is none.
func span(seconds float64, there bool) cell {
	if !there || seconds < 0 {
		return cell{text: "-", value: -1}
	}
	if seconds < 1 {
		return cell{text: fmt.Sprintf("%.0fms", 1000*seconds), value: seconds}
	}
	return cell{text: plain.Seconds(seconds), value: seconds}
}

func rowsOf(v View, o *api.Overview) (rows []row) {
	switch v {
	case Queues, Levels, Tenants:
		for i := range o.Queues {
			q := &o.Queues[i]
			switch v {
			case Queues:
				rows = append(rows, queueRow(q))
			case Levels:
				rows = append(rows, levelRows(q)...)
			default:
				rows = append(rows, tenantRows(q)...)
			}
		}
	case Capsules:
		rows = capsuleRows(o.Status)
	case Leases:
		rows = leaseRows(o.Status)
	case Peers:
		for _, p := range o.Status.Peers {
			role := "no app asks"
			if p.Demand {
				role = "works"
			}
			rows = append(rows, row{word(p.Agent), word(p.Capsule), {text: strconv.Itoa(p.ConsumerPriority), value: float64(p.ConsumerPriority)}, word(role), span(p.AgeSeconds, true), word(strings.Join(p.Queues, ", "))})
		}
	}
	return rows
}

func queueRow(q *api.QueueOverview) row {
	name := q.Name
	if q.Paused {
		name += " (paused)"
	}
	r := row{
		word(name), whole(q.Waiting), whole(q.InFlight), whole(q.Delayed), whole(q.Dead), perSecond(q.DeliveredPerSecond), span(q.OldestAgeSeconds, q.Waiting+q.InFlight > 0),
		levelBar(q), whole(uint64(q.TenantsActive)), whole(uint64(q.Noisy.Tenants)), span(q.Quiet.WaitedSeconds, q.Quiet.Deliveries > 0), span(q.Noisy.WaitedSeconds, q.Noisy.Deliveries > 0),
	}
	if q.Noisy.Tenants > 0 {
		r[9].style = amber
	}
	if q.Dead > 0 {
		r[4].style = red
	}
	return r
}

const barCells = 16

// levelBar shows what waits, in cells that carry the number of their level; of ten levels and more the last digit. A level
// with anything has a cell, if there are not more of them than cells.
func levelBar(q *api.QueueOverview) cell {
	var b strings.Builder
	sum, before := uint64(0), 0
	for _, l := range q.LevelStats {
		sum += l.Waiting
		if l.Waiting == 0 {
			continue
		}
		until := max(int(float64(sum)/float64(max(q.Waiting, sum))*barCells+0.5), before+1)
		until = min(until, barCells)
		b.WriteString(strings.Repeat(strconv.Itoa(l.Priority%10), max(until-before, 0)))
		before = max(until, before)
	}
	return cell{text: b.String(), value: float64(q.Waiting), bar: true}
}

func levelRows(q *api.QueueOverview) (rows []row) {
	for _, l := range q.LevelStats {
		rows = append(rows, row{
			word(q.Name), whole(uint64(l.Priority)), word(l.Name), whole(l.Waiting), whole(l.InFlight), whole(l.Delayed), perSecond(l.DeliveredPerSecond),
			span(l.OldestAgeSeconds, l.Waiting+l.InFlight > 0),
		})
	}
	return rows
}

func tenantRows(q *api.QueueOverview) (rows []row) {
	scale := 0.0
	for _, t := range q.Tenants {
		scale = max(scale, t.Share, t.Fair)
	}
	for _, t := range q.Tenants {
		name := word(plain.Key(t.Key))
		if t.Noisy {
			name.text, name.style = name.text+" (noisy)", amber
		}
		if t.Paused {
			name.text, name.style = name.text+" (paused)", red
		}
		got := t.PerSecond > 0
		rows = append(rows, row{
			word(q.Name), name, whole(t.Waiting), whole(t.InFlight), {text: strconv.FormatFloat(t.Weight, 'f', -1, 64), value: t.Weight}, perSecond(t.PerSecond), shareBar(t.Share, t.Fair, scale),
			percent(t.Share), percent(t.Fair), span(t.WaitedSeconds, got), span(t.LongestSeconds, got), span(t.OldestAgeSeconds, true),
		})
	}
	if r := q.Rest; r.Tenants > 0 {
		got := r.Deliveries > 0
		rows = append(rows, row{
			word(q.Name), word(fmt.Sprintf("(%d more)", r.Tenants)), whole(r.Waiting), {text: "-"}, {text: "-"}, perSecond(r.PerSecond), {text: ""},
			percent(r.Share), percent(r.Fair), span(r.WaitedSeconds, got), span(r.LongestSeconds, got), span(-1, false),
		})
	}
	return rows
}

// shareBar is as long as the share, with a mark at the fair share.
func shareBar(share, fair, scale float64) cell {
	if scale <= 0 {
		return cell{value: share}
	}
	bar := []rune(strings.Repeat("█", int(share/scale*barCells+0.5)) + strings.Repeat(" ", barCells+1))[:barCells+1]
	bar[min(int(fair/scale*barCells+0.5), barCells)] = '|'
	return cell{text: strings.TrimRight(string(bar), " "), value: share, style: blue}
}

func capsuleRows(s *api.AgentStatus) (rows []row) {
	for i := range s.Capsules {
		c := &s.Capsules[i]
		for _, q := range c.Queues {
			now := q.Why
			if now == "" {
				now = "works"
				if c.InFlight+c.Credit == 0 {
					now = "nothing asked for"
				}
			}
			rows = append(rows, row{word(c.Name), word(q.Name), whole(uint64(max(c.InFlight, 0))), whole(uint64(max(c.Concurrency, 0))), whole(uint64(max(c.Credit, 0))), whole(c.Delivered), word(now)})
		}
	}
	return rows
}

func leaseRows(s *api.AgentStatus) (rows []row) {
	for i := range s.Capsules {
		c := &s.Capsules[i]
		for _, q := range c.Queues {
			if q.Lease == "" {
				continue
			}
			holder := q.LeaseHolder
			if holder == "" {
				holder = "nobody"
			}
			part := word(strings.ReplaceAll(q.Lease, "_", " "))
			if q.Lease == api.LeaseHolder {
				part.style = green
			}
			rows = append(rows, row{word(q.Name), word(holder), whole(q.Fence), span(q.LeaseAgeSeconds, q.LeaseHolder != ""), word(c.Name), part})
		}
	}
	return rows
}

// arrange leaves out the rows that the filter does not want, and sorts the others. Equal ones stay as they are.
func arrange(rows []row, filter string, o Order) []row {
	if filter = strings.ToLower(plain.Text(filter)); filter != "" {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !matches(r, filter) })
	}
	if o.Column == 0 {
		if o.Up {
			slices.Reverse(rows)
		}
		return rows
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		x, y := a[o.Column-1], b[o.Column-1]
		turn := cmp.Compare(y.value, x.value) // numbers: the largest first
		if x.word {
			turn = strings.Compare(x.text, y.text)
		}
		if o.Up {
			turn = -turn
		}
		return turn
	})
	return rows
}
