package bench

import (
	"slices"
	"time"
)

// Report is what was measured.
type Report struct {
	Messages int     `json:"messages"`
	Bytes    int     `json:"bytes"`
	Pull     int     `json:"pull"`
	Rounds   int     `json:"rounds"`
	Rows     []Row   `json:"rows"`
	Delivery Times   `json:"publish_to_delivery"`
	Takes    []Takes `json:"takes"`
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
