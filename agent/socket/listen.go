package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxPath   = 107 // sun_path has 108 bytes, and one is the final NUL
	dirMode   = 0o750
	lockMode  = 0o600
	backlog   = 1024
	probeTime = time.Second
)

// Listener is a listening socket file of this process. It is safe for several goroutines.
type Listener struct {
	net.Listener
	path string
	lock *os.File
	own  os.FileInfo // of the socket file, to know it again
	once sync.Once
	err  error
}

// Listen makes a socket file and listens on it. The folder is made with mode 0750 if it is missing. The file has its mode
// before anybody can connect. A file that is there already is taken over only if it is a socket on which nobody answers;
// a lock file beside it keeps two processes from doing so at the same time, and is held until Close.
//
// The errors are ErrAlreadyRunning, ErrNotASocket, ErrPathTooLong, and those of the file system, wrapped with the path.
func Listen(path string, mode fs.FileMode) (*Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%w: %s", ErrPathTooLong, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, fmt.Errorf("socket: the folder cannot be made: %w: make it for this user, or write another path", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	l, err := listenLocked(path, mode)
	if err != nil {
		unlock(lock)
		return nil, err
	}
	l.lock = lock
	return l, nil
}

// listenLocked makes the socket while the lock is held.
func listenLocked(path string, mode fs.FileMode) (*Listener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	fd, err := bind(path)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // FileListener works on a copy
	// Connections are refused until listen: nobody comes in before the mode is set.
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("socket: listen on %s: %w", path, err)
	}
	inner, err := net.FileListener(file)
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("socket: %s: %w", path, err)
	}
	own, err := os.Lstat(path)
	if err != nil {
		_ = inner.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return &Listener{Listener: inner, path: path, own: own}, nil
}

func bind(path string) (int, error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("socket: bind %s: %w", path, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		_ = os.Remove(path)
		return 0, fmt.Errorf("socket: %w", err)
	}
	return fd, nil
}

// clearStale removes a socket file whose owner is gone.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s", ErrNotASocket, path)
	}
	c, err := net.DialTimeout("unix", path, probeTime)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%w: %s", ErrAlreadyRunning, path)
	}
	// Only a refused connection proves that nobody listens. A full backlog, or a socket that we may not connect to,
	// proves that somebody may.
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: %s: %w", ErrAlreadyRunning, path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket: remove the stale %s: %w", path, err)
	}
	return nil
}

// lockFile takes the lock of a path. The kernel drops it with the process, however that ends.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, lockMode)
		if err != nil {
			return nil, fmt.Errorf("socket: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%w: %s", ErrAlreadyRunning, path)
			}
			return nil, fmt.Errorf("socket: lock %s: %w", path, err)
		}
		// Its last owner may have removed the file between our open and our lock: then others lock another file.
		mine, err := f.Stat()
		if err == nil {
			var now os.FileInfo
			if now, err = os.Lstat(path); err == nil && os.SameFile(mine, now) {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("socket: %w", err)
		}
	}
}

// unlock removes a lock file and drops the lock, in this order: see lockFile.
func unlock(f *os.File) {
	_ = os.Remove(f.Name())
	_ = f.Close()
}

// Path returns the path of the socket file.
func (l *Listener) Path() string { return l.path }

// Close stops listening and removes the socket file, if it is still ours, and the lock file. It can be called twice.
func (l *Listener) Close() error {
	l.once.Do(func() {
		// First the file: a client that finds none knows that nobody is there, one that is refused may think of a crash.
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(l.own, now) {
			l.err = os.Remove(l.path)
		}
		if err := l.Listener.Close(); err != nil && l.err == nil {
			l.err = err
		}
		unlock(l.lock)
		if l.err != nil {
			l.err = fmt.Errorf("socket: close %s: %w", l.path, l.err)
		}
	})
	return l.err
}
