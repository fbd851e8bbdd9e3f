package bench

import (
	"slices"
	"time"
)

// Report is what was measured. What was not is empty.
type Report struct {
	Format   int       `json:"format"` // ReportFormat
	At       time.Time `json:"at"`
	Version  string    `json:"version"`
	Machine  Machine   `json:"machine"`
	Messages int       `json:"messages"`
	Bytes    int       `json:"bytes"`
	Pull     int       `json:"pull"`
	Rounds   int       `json:"rounds"`
	Server   string    `json:"server"` // "in this process" or "given": an address can hold a password

	Rows     []Row `json:"rows"`
	Delivery Times `json:"publish_to_delivery"`
	// DeliveryParts are the medians of five consecutive parts of the single messages, in microseconds: their spread.
	DeliveryParts []float64  `json:"publish_to_delivery_parts_us,omitempty"`
	Takes         []Takes    `json:"takes"`
	Neighbour     *Neighbour `json:"noisy_neighbour,omitempty"`
	Agents        []Agents   `json:"many_agents,omitempty"`
}

// ReportFormat is raised whenever a report changes so that an older one cannot be compared.
const ReportFormat = 1

func newReport(o *Options) *Report {
	r := &Report{
		Format: ReportFormat, At: time.Now().UTC().Truncate(time.Second), Version: o.Version, Machine: thisMachine(),
		Messages: o.Messages, Bytes: payloadSize, Pull: o.Pull, Rounds: o.Rounds, Server: "given",
	}
	if o.OwnServer {
		r.Server = "in this process"
	}
	return r
}

// Row is one kind of queue, with a figure per number of connections.
type Row struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is one figure.
type Cell struct {
	Connections int       `json:"connections"`
	PerSecond   float64   `json:"messages_per_second"` // the median of the rounds
	OfBare      float64   `json:"of_bare"`             // relative to the bare loop with as many connections
	All         []float64 `json:"all"`                 // of each round
}

// Times are percentiles, in microseconds.
type Times struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
}

// Takes is the cost of single takes while so many messages wait.
type Takes struct {
	Waiting int `json:"waiting"`
	Times
}

// median returns the middle value, or the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// partMedians returns the medians of five consecutive parts, in microseconds; nil for fewer than 50 values.
func partMedians(values []time.Duration) []float64 {
	const parts = 5
	if len(values) < 10*parts {
		return nil
	}
	medians := make([]float64, parts)
	for i := range medians {
		medians[i] = percentiles(values[i*len(values)/parts : (i+1)*len(values)/parts]).P50
	}
	return medians
}

// percentiles sums up durations, by nearest rank.
func percentiles(values []time.Duration) Times {
	if len(values) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100
		return float64(sorted[max(rank, 1)-1].Nanoseconds()) / 1000
	}
	return Times{Count: len(sorted), P50: at(50), P99: at(99), Max: at(100)}
}
