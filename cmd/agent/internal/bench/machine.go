package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where a report was made.
type Machine struct {
	Platform string `json:"platform"`
	CPU      string `json:"cpu,omitempty"`
	CPUs     int    `json:"cpus"` // that this process may use
	Go       string `json:"go"`
	// LoadBefore and LoadAfter are the system's load averages over a minute; 0 where they cannot be had. What was busy before
	// the run began was not the run.
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
}

func thisMachine() Machine {
	return Machine{Platform: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuModel(), CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()}
}

// cpuModel is what Linux calls the processor; "" elsewhere.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is the system's load over the last minute; 0 where it cannot be had.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64) // 0 for what is none
	return load
}
