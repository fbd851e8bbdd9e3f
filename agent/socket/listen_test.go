package socket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestListenMakesFolderAndMode(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for _, mode := range []fs.FileMode{0o660, 0o600, 0o666} {
		unix.Umask(0o027)
		dir := filepath.Join(socketDir(t), "run", "fairlead")
		path := filepath.Join(dir, "agent.sock")
		l, err := Listen(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|mode {
			t.Errorf("mode %v, %v, want a socket with %v", info.Mode(), err, mode)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("folder has %v, want 0750", info.Mode())
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if l.Path() != path {
			t.Errorf("Path %q", l.Path())
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("%v is left after Close", left)
		}
	}
}

func TestAStaleSocketIsTakenOver(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	// A crash leaves the lock file too, but not the lock.
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	_ = l.Close()
}

func TestALiveSocketIsRefused(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(path, 0o600); !errors.Is(err, ErrAlreadyRunning) {
		t.Errorf("while it is live: %v", err)
	}
	// Somebody who has no lock, but answers.
	other := filepath.Join(filepath.Dir(path), "other")
	foreign, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if _, err := Listen(other, 0o600); !errors.Is(err, ErrAlreadyRunning) {
		t.Errorf("a foreign server: %v", err)
	}
	if _, err := net.Dial("unix", other); err != nil {
		t.Errorf("the foreign socket was harmed: %v", err)
	}
	if left := files(t, filepath.Dir(path)); len(left) != 3 {
		t.Errorf("files %v, want two sockets and our lock", left)
	}
}

// A server that is too busy to take another connection is alive.
func TestABusySocketIsRefused(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	fd, err := bind(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := net.Dial("unix", path)
		if err != nil {
			break // nobody accepts, and the backlog is full
		}
		defer c.Close()
	}
	if _, err := Listen(path, 0o600); !errors.Is(err, ErrAlreadyRunning) {
		t.Errorf("Listen: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("its socket was removed: %v", err)
	}
}

func TestOtherFilesAreLeftAlone(t *testing.T) {
	dir := socketDir(t)
	file, folder, link := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, folder, link} {
		if _, err := Listen(path, 0o600); !errors.Is(err, ErrNotASocket) {
			t.Errorf("%s: %v, want ErrNotASocket", path, err)
		}
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if left := files(t, dir); len(left) != 3 {
		t.Errorf("files %v", left)
	}
	if _, err := Listen("/"+strings.Repeat("x", 107), 0o600); !errors.Is(err, ErrPathTooLong) {
		t.Errorf("108 bytes: %v", err)
	}
	if _, err := Listen(filepath.Join(file, "s"), 0o600); err == nil {
		t.Error("a folder below a file")
	}
}

// Close does not remove what somebody else has put in the socket's place.
func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	foreign, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other's socket was removed: %v", err)
	}
}

// However many start at the same moment beside a stale socket, one gets it, over and over.
func TestOneOfManyTakesTheSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	for range 50 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []*Listener
		for range 8 {
			wg.Go(func() {
				l, err := Listen(path, 0o600)
				if err != nil && !errors.Is(err, ErrAlreadyRunning) {
					t.Errorf("Listen: %v", err)
				}
				if err == nil {
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d have the socket", len(won))
		}
		if err := won[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Starting and stopping at the same time over and over: never two at a time, and no other error than that one is running.
func TestStartsAndStopsAtTheSameTime(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	var holders, won atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				l, err := Listen(path, 0o600)
				if errors.Is(err, ErrAlreadyRunning) {
					continue
				}
				if err != nil {
					t.Errorf("Listen: %v", err)
					return
				}
				won.Add(1)
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d have the socket", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if won.Load() == 0 {
		t.Error("nobody ever had it")
	}
}
