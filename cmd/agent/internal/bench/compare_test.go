package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// measured is a report with everything in it. Each round of the bare loop does 1000 a second, and each of the other row as given.
func measured(perSecond ...float64) *Report {
	bare := make([]float64, len(perSecond))
	for i := range bare {
		bare[i] = 1000
	}
	agents := []Agents{{Agents: 1}, {Agents: 2}}
	for i := range agents {
		for _, rate := range perSecond {
			shares := map[string]float64{}
			for t := range shareTenants {
				shares[tenant(t)] = entitled(tenant(t))
			}
			agents[i].All = append(agents[i].All, AgentsRound{PerSecond: rate * float64(i+1), Shares: shares, LanePulls: 100, EmptyPulls: uint64(i)})
		}
		agents[i].sum()
	}
	systems := []System{{Name: plainName}, {Name: "Fairlead"}}
	for i := range systems {
		for _, rate := range perSecond {
			systems[i].All = append(systems[i].All, NeighbourRound{
				Quiet: Times{Count: 10, P50: 1e6 / rate, P99: 3e6 / rate, Max: 4e6 / rate}, Published: 100, Delivered: 99 * i, Noisy: 300,
			})
		}
		systems[i].sum()
	}
	return &Report{
		Format: ReportFormat, At: time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC), Version: "test", Server: "given",
		Machine:  Machine{Platform: "linux/amd64", CPU: "A <fast> one & more", CPUs: 2, Go: "go1", LoadBefore: 0.3, LoadAfter: 2},
		Messages: 100, Bytes: payloadSize, Pull: 8, Rounds: len(perSecond),
		Rows: []Row{
			{Name: bareName, Cells: []Cell{{Connections: 1, PerSecond: 1000, OfBare: 1, All: bare}}},
			{Name: "1 level, no keys", Cells: []Cell{{Connections: 1, PerSecond: median(perSecond), OfBare: median(perSecond) / 1000, All: perSecond}}},
		},
		Delivery: Times{10, 400, 900, 1000}, DeliveryParts: []float64{390, 400, 410},
		Takes:     []Takes{{Waiting: 1000, Times: Times{10, 100, 200, 300}}},
		Neighbour: &Neighbour{Flood: 300, Quiet: 10, EveryMS: 20, DuringMS: 200, WorkMS: 4, Slots: 8, Systems: systems},
		Agents:    agents,
	}
}

func TestReportsSurviveAFile(t *testing.T) {
	want := measured(700, 750, 800)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(bytes.NewReader(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	for _, wrong := range []string{"", "no JSON", `{"messages":5}`, `{"format":99}`, `{"format":1,"rows":[{"cells":[{}]},{"cells":[]}]}`} {
		if _, err := ReadReport(strings.NewReader(wrong)); !errors.Is(err, ErrReport) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestOnlyWhatIsMoreThanNoiseIsADifference(t *testing.T) {
	const row = "1 level, no keys, connections: 1"
	for _, c := range []struct {
		name      string
		then, now []float64
		want      Verdict
		ratio     float64
	}{
		{"better in every round", []float64{700, 710, 720}, []float64{770, 781, 790}, Better, 1.1},
		{"worse in every round", []float64{800, 810, 820}, []float64{400, 405, 410}, Worse, 0.5},
		{"better in the middle only", []float64{700, 710, 900}, []float64{690, 781, 790}, Noise, 1.1},
		{"the same", []float64{700, 710, 720}, []float64{700, 710, 720}, Noise, 1},
		{"two rounds then", []float64{700, 720}, []float64{1400, 1420, 1440}, TooFew, 2},
		{"two rounds now", []float64{700, 710, 720}, []float64{1400, 1440}, TooFew, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := find(t, Compare(measured(c.then...), measured(c.now...)), row)
			if got.Verdict != c.want || got.Ratio < c.ratio-0.01 || got.Ratio > c.ratio+0.01 || got.Low > got.Ratio || got.High < got.Ratio {
				t.Errorf("got %+v, want %s and %v", got, c.want, c.ratio)
			}
		})
	}
}

func find(t *testing.T, c Comparison, name string) Change {
	t.Helper()
	i := slices.IndexFunc(c.Changes, func(c Change) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no %q in %+v", name, c.Changes)
	}
	return c.Changes[i]
}

// Waiting is measured in time, and less of it is better.
func TestShorterIsBetter(t *testing.T) {
	c := Compare(measured(400, 410, 420), measured(800, 810, 820))
	for _, name := range []string{"beside a noisy neighbour, p50", "beside a noisy neighbour, p99"} {
		if got := find(t, c, name); got.Verdict != Better || got.Ratio >= 1 {
			t.Errorf("%+v", got)
		}
	}
	// Two agents always did twice as much as one: that is what is compared, not the rate.
	if got := find(t, c, "agents: 2"); got.Verdict != Noise || got.Then != 2 || got.Now != 2 {
		t.Errorf("%+v", got)
	}
}

func TestABusyOrDifferentMachineIsTold(t *testing.T) {
	then, now := measured(1, 2, 3), measured(1, 2, 3)
	if notes := Compare(then, now).Notes; len(notes) > 0 {
		t.Errorf("notes of two runs alike: %q", notes)
	}
	now.Machine.CPU, now.Machine.LoadBefore, now.Messages = "another", 3, 200
	notes := strings.Join(Compare(then, now).Notes, "\n")
	for _, want := range []string{"messages of each row: 100 then, 200 now", "processor: A <fast> one & more then, another now", "busy with something else before the run now: load 3.0"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
}

// Throughput is compared as a ratio to what the bare loop did in the same round, so that a slow machine is no difference.
func TestASlowMachineIsNoDifference(t *testing.T) {
	then, now := measured(700, 710, 720), measured(350, 355, 360)
	for i := range now.Rows[0].Cells[0].All {
		now.Rows[0].Cells[0].All[i] = 500
	}
	if got := find(t, Compare(then, now), "1 level, no keys, connections: 1"); got.Verdict != Noise || got.Ratio != 1 {
		t.Errorf("%+v", got)
	}
}
