package top

import (
	"fmt"
	"io"
	"strings"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/cmd/agent/internal/plain"
)

// Print writes everything once, table by table, without colours and as wide as it is. Tables without rows are left out. The
// filter and the orders of the model count.
func Print(w io.Writer, m Model, o *api.Overview) error {
	m.Colour = false
	m = m.Show(o, o.At)
	s := o.Status
	broker := "connected"
	if !s.Broker.Connected {
		broker = "not connected: " + plain.Text(s.Broker.LastError)
	}
	lines := []string{fmt.Sprintf("agent %s, %s, up %s, NATS %s", plain.Text(s.Agent), s.State, plain.Seconds(s.UptimeSeconds), broker), m.totals()}
	if o.Problem != "" {
		lines = append(lines, "problem: "+plain.Text(o.Problem))
	}
	for i := range o.Queues {
		if said := noisy(&o.Queues[i]); said != "" {
			lines = append(lines, said)
		}
	}
	for m.View = range views {
		rows := m.rows()
		if len(rows) == 0 {
			continue
		}
		const anyWidth = 1 << 20
		widths := fit(heads[m.View], rows, m.Orders[m.View], anyWidth)
		names := make(row, len(widths))
		for i, h := range heads[m.View] {
			names[i] = cell{text: headName(h, i, m.Orders[m.View])}
		}
		lines = append(lines, "", m.line(names, widths, true))
		for _, r := range rows {
			lines = append(lines, m.line(r, widths, false))
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
