//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A begun order is one line of a handler's log.
type begun struct {
	tenant string
	level  string
	before int           // how many orders were begun before it
	wait   time.Duration // since work began
}

// A journal is where handlers say that they begin: a FIFO, so that each line has its time although the handler, a plain
// shell script, has no clock. What a handler writes in one go arrives in one piece.
type journal struct {
	path string
	file *os.File
}

func (s settings) newJournal(name string) (*journal, error) {
	path := filepath.Join(s.folder, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Open for writing too: so it opens without a writer, and does not end when there is none for a moment.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &journal{path: path, file: file}, nil
}

// collect reads until n orders were begun. It ends early, with ctx's cause, when ctx ends.
func (j *journal) collect(ctx context.Context, n int, start time.Time) ([]begun, error) {
	defer context.AfterFunc(ctx, func() { _ = j.file.Close() })()
	all := make([]begun, 0, n)
	lines := bufio.NewScanner(j.file)
	for len(all) < n && lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		number, err := strconv.Atoi(words[0])
		if len(words) < 2 || err != nil || number < 0 || number >= len(levels) {
			return nil, fmt.Errorf("the handler wrote %q, want a level's number and a tenant", lines.Text())
		}
		all = append(all, begun{tenant: words[1], level: levels[number], before: len(all), wait: time.Since(start)})
	}
	if len(all) < n {
		return nil, fmt.Errorf("%d of %d orders were begun: %w", len(all), n, context.Cause(ctx))
	}
	return all, nil
}
