//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// levels of the development agent's queue, the highest first.
var levels = []string{"high", "medium", "low"}

// settings of a run.
type settings struct {
	fairlead    string // the binary; "" builds it
	orders      string // the NDJSON file
	handler     string
	limit       int // how many orders of the file; 0 is all
	concurrency int
	folder      string // a temporary one, for logs, stores and the binary
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("report: ")
	var s settings
	flag.StringVar(&s.fairlead, "fairlead", "", "the fairlead `binary`; built from this repository if not given")
	flag.StringVar(&s.orders, "orders", "examples/orders/orders.ndjson", "the day of orders, a `file` of NDJSON")
	flag.StringVar(&s.handler, "handler", "examples/orders/handler", "the `command` that handles one order")
	flag.IntVar(&s.limit, "limit", 0, "take only the first `n` orders; 0 takes all")
	flag.IntVar(&s.concurrency, "concurrency", 4, "how many orders to handle at a time")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx, os.Stdout)
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}

// run does both runs and prints the comparison to w.
func (s settings) run(ctx context.Context, w io.Writer) (err error) {
	if s.folder, err = os.MkdirTemp("", "orders"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	if s.handler, err = filepath.Abs(s.handler); err != nil {
		return err
	}
	jobs, err := s.read()
	if err != nil {
		return err
	}
	if s.fairlead == "" {
		s.fairlead = filepath.Join(s.folder, "fairlead")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.fairlead, "github.com/fairlead/fairlead/cmd/agent")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building fairlead: %w\n%s", err, out)
		}
	}
	log.Printf("%d orders through Fairlead", len(jobs))
	fair, err := s.throughFairlead(ctx, jobs)
	if err != nil {
		return fmt.Errorf("through Fairlead: %w", err)
	}
	log.Printf("%d orders through one plain consumer", len(jobs))
	plain, err := s.throughPlainConsumer(ctx, jobs)
	if err != nil {
		return fmt.Errorf("through a plain consumer: %w", err)
	}
	return print(w, s.concurrency, fair, plain)
}

// A job is a line of the orders file.
type job struct {
	Data     json.RawMessage `json:"data"`
	Priority string          `json:"priority"`
	Key      string          `json:"key"`
	line     []byte
}

// read returns the orders to work through, and leaves just these in the temporary folder as the file to publish.
func (s *settings) read() ([]job, error) {
	text, err := os.ReadFile(s.orders)
	if err != nil {
		return nil, err
	}
	var jobs []job
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan() && (s.limit == 0 || len(jobs) < s.limit); {
		j := job{line: bytes.Clone(lines.Bytes())}
		if err := json.Unmarshal(j.line, &j); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", s.orders, len(jobs)+1, err)
		}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%s: no orders in it", s.orders)
	}
	s.orders = filepath.Join(s.folder, "orders.ndjson")
	var published bytes.Buffer
	for _, j := range jobs {
		published.Write(append(j.line, '\n'))
	}
	return jobs, os.WriteFile(s.orders, published.Bytes(), 0o600)
}
