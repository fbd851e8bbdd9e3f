//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errEnded = errors.New("it ended too early")

// throughFairlead publishes the orders to a development agent and has them worked, with the three commands that one
// would type.
func (s settings) throughFairlead(ctx context.Context, jobs []job) ([]begun, error) {
	agent := exec.Command(s.fairlead, "run", "--dev")
	agent.Stderr = os.Stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := agent.Start(); err != nil {
		return nil, err
	}
	defer terminate(agent)
	lines := bufio.NewScanner(out)
	socket := ""
	for socket == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "FAIRLEAD_SOCKET="); ok {
			socket = "FAIRLEAD_SOCKET=" + strings.TrimSpace(after)
		}
	}
	if socket == "" {
		return nil, fmt.Errorf("run --dev: %w", errEnded)
	}
	go func() { // what it says further must not fill its pipe
		for lines.Scan() {
		}
	}()

	publish := exec.CommandContext(ctx, s.fairlead, "publish", "default", "--batch", s.orders)
	publish.Env = append(os.Environ(), socket)
	if out, err := publish.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("publish: %w\n%s", err, out)
	}

	journal, err := s.newJournal("fairlead.log")
	if err != nil {
		return nil, err
	}
	defer journal.file.Close()
	work := exec.Command(s.fairlead, "work", "default", "--concurrency", strconv.Itoa(s.concurrency), "--", s.handler)
	work.Env = append(os.Environ(), socket, "ORDERS_LOG="+journal.path)
	start := time.Now()
	if err := work.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		_ = work.Wait()
		cancel(fmt.Errorf("work: %w", errEnded))
		close(ended)
	}()
	all, err := journal.collect(ctx, len(jobs), start)
	_ = work.Process.Signal(syscall.SIGTERM)
	<-ended
	return all, err
}

// terminate asks cmd to end and waits until it has.
func terminate(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}
