//go:build unix && !linux

package worker

import "syscall"

// procAttr gives a command its own process group, so that Ctrl-C reaches the worker alone, which lets it finish.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
