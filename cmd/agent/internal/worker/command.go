package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

const (
	// termGrace is how long a command may take to end after SIGTERM, before it is killed.
	termGrace = 10 * time.Second
	// pipeGrace is how long the output of a command is read after it exited: something it left running may hold it open.
	pipeGrace = 2 * time.Second
	// maxReason bounds the reason of a nack, in bytes.
	maxReason = 512
)

// execute runs the command for d. The error says why it did not exit with 0. The command gets SIGTERM when ctx ends, and
// SIGKILL when kill ends.
func (w *Worker) execute(ctx, kill context.Context, d *api.Delivery) error {
	env, err := environ(w.options.Environ, d)
	if err != nil {
		return err
	}
	tail := &lastLine{to: w.stderr}
	command := &exec.Cmd{
		Path: w.path, Args: w.options.Command, Env: env,
		Stdin: bytes.NewReader(d.Payload()), Stdout: w.stdout, Stderr: tail,
		SysProcAttr: procAttr(), WaitDelay: pipeGrace,
	}
	// The kernel ties "parent died" to the thread that started the child, so this thread has to live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := command.Start(); err != nil {
		return fmt.Errorf("it could not be started: %w", err)
	}
	// Signals go to the whole group: a shell's children are meant as well.
	signal := func(s syscall.Signal) { _ = syscall.Kill(-command.Process.Pid, s) }
	exited := make(chan struct{})
	stopTerm := context.AfterFunc(ctx, func() {
		signal(syscall.SIGTERM)
		timer := time.NewTimer(termGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			signal(syscall.SIGKILL)
		case <-exited:
		}
	})
	stopKill := context.AfterFunc(kill, func() { signal(syscall.SIGKILL) })
	err = command.Wait()
	close(exited)
	stopTerm()
	stopKill()
	tail.flush()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && command.ProcessState.Success() {
		return nil
	}
	return reason(err, tail.last())
}

// reason makes one line of an exit code and the last thing that was said.
func reason(err error, last string) error {
	text := err.Error()
	if last != "" {
		text += ": " + last
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	for len(text) > maxReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return errors.New(text)
}

// environ returns the environment of the command. Variables of a message around this worker are not passed on.
func environ(base []string, d *api.Delivery) ([]string, error) {
	env := make([]string, 0, len(base)+16)
	for _, v := range base {
		if !strings.HasPrefix(v, "FAIRLEAD_HEADER_") {
			env = append(env, v)
		}
	}
	set := func(name, value string) { env = append(env, "FAIRLEAD_"+name+"="+value) }
	set("TOKEN", d.Token)
	set("QUEUE", d.Queue)
	set("PRIORITY", strconv.Itoa(d.Priority))
	set("KEY", d.Key)
	set("SEQ", strconv.FormatUint(d.Seq, 10))
	set("ATTEMPT", strconv.Itoa(d.Attempt))
	set("ID", d.ID)
	set("FENCE", strconv.FormatUint(d.Fence, 10))
	set("CONTENT_TYPE", d.ContentType)
	set("ENQUEUED_AT", d.EnqueuedAt.UTC().Format(time.RFC3339Nano))
	names := make([]string, 0, len(d.Headers))
	for name := range d.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		set("HEADER_"+variableName(name), d.Headers[name])
	}
	for _, v := range env[len(env)-10-len(names):] {
		if strings.ContainsRune(v, 0) {
			// To cut or replace it could turn one tenant's key into another's.
			return nil, errVariable
		}
	}
	return env, nil
}

// variableName turns a header's name into a part of a variable's.
func variableName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}
