package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/fairlead/fairlead/cmd/agent/internal/plain"
)

// isTerminal reports whether w is a terminal. Nothing that is not an *os.File is one.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether escape sequences may be written to w.
func (a *app) colour(w io.Writer) bool {
	if v, _ := a.lookup("NO_COLOR"); v != "" {
		return false
	}
	if v, _ := a.lookup("TERM"); v == "dumb" {
		return false
	}
	return isTerminal(w)
}

// writeJSON writes v over several lines.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// writeLine writes v as one line of NDJSON.
func writeLine(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// table writes rows in aligned columns. Cells are made printable, so that no key or payload can move the cursor.
type table struct {
	columns *tabwriter.Writer
}

func newTable(w io.Writer, heads ...any) *table {
	t := &table{columns: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t *table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(t.columns, "\t")
		}
		_, _ = io.WriteString(t.columns, printable(fmt.Sprint(cell)))
	}
	_, _ = io.WriteString(t.columns, "\n")
}

func (t *table) flush() error { return t.columns.Flush() }

// printable returns s with everything that is not to be printed escaped.
func printable(s string) string { return plain.Text(s) }

// quote names something that the user wrote.
func quote(s string) string { return strconv.Quote(s) }

// shorten cuts s to at most limit characters.
func shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == limit {
			return s[:i] + "…"
		}
	}
	return s
}

// seconds shows a time span in the largest two units.
func seconds(s float64) string { return plain.Seconds(s) }

// sizeOf shows a number of bytes.
func sizeOf(n uint64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatUint(n, 10) + " B"
	}
	value, suffix := float64(n)/unit, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, suffix = value/unit, next
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + suffix
}
