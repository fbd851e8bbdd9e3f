package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
)

// benchFiles are the files that bench reads and writes; "" is none.
type benchFiles struct {
	svg, json, compare string
	cpu, memory        string // profiles
}

// earlier reads the report to compare with; nil if there is none. It is read before anything is measured, so that a wrong
// name costs no minute.
func (f benchFiles) earlier() (*bench.Report, error) {
	if f.compare == "" {
		return nil, nil
	}
	file, err := os.Open(f.compare)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	defer file.Close()
	r, err := bench.ReadReport(file)
	if err != nil {
		return nil, fmt.Errorf("--compare %s: %w", f.compare, err)
	}
	return r, nil
}

// write writes the report in the forms that were asked for.
func (f benchFiles) write(r *bench.Report) error {
	if err := writeFile("--json", f.json, func(w io.Writer) error { return writeJSON(w, r) }); err != nil {
		return err
	}
	return writeFile("--svg", f.svg, r.WriteSVG)
}

// writeFile lets body write the file that an option names, if it names one.
func writeFile(option, path string, body func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(body(file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// profiled runs body and writes the profiles that were asked for.
func (f benchFiles) profiled(body func() error) error {
	if f.memory != "" {
		runtime.MemProfileRate = 4 << 10 // finer than usual: what costs is many small ones
	}
	err := writeFile("--cpuprofile", f.cpu, func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return body()
	})
	if f.cpu == "" {
		err = body()
	}
	if err != nil {
		return err
	}
	return writeFile("--memprofile", f.memory, func(w io.Writer) error {
		runtime.GC() // so that the profile is of this moment
		return pprof.Lookup("allocs").WriteTo(w, 0)
	})
}
