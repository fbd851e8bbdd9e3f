package worker

import "syscall"

// procAttr gives a command its own process group, so that Ctrl-C reaches the worker alone, which lets it finish; and has
// the kernel end it when the worker is killed, because its message is somebody else's then.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
