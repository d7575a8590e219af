package kubelet

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// other makes another socket at the path, whose process listens or has ended.
func other(t *testing.T, path string, listens bool) *net.UnixListener {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	if !listens {
		l.Close()
	}
	return l
}

// A file at the path of a served socket that is not its own: the socket of a process that ended is
// replaced, and with anything else the agent is not ready and says why.
func TestAnotherFileHasThePath(t *testing.T) {
	for what, row := range map[string]struct {
		there func(t *testing.T, path string)
		words [3]string // of Ready after each check, "" if it is ready
	}{
		"its own": {func(*testing.T, string) {}, [3]string{}},
		"gone": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, [3]string{}},
		"of a process that ended": {func(t *testing.T, path string) { other(t, path, false) }, [3]string{"refuses connections", "", ""}},
		"of another process": {func(t *testing.T, path string) { other(t, path, true) },
			[3]string{"another process serves it", "another process serves it", "another process serves it"}},
		"of a process that is busy": {full, [3]string{"may serve it", "may serve it", "may serve it"}},
		"a file": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, [3]string{"not a socket", "not a socket", "not a socket"}},
	} {
		path := filepath.Join(t.TempDir(), "csi.sock")
		s, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		row.there(t, path)
		for i, words := range row.words {
			_, _ = s.check()
			if err := s.Ready(); (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%s, check %d: %v, want %q", what, i, err, words)
			}
		}
		c, err := net.Dial("unix", path)
		if (err == nil) != (row.words[2] == "" || what == "of another process") {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

// full makes a socket whose process accepts nothing, and whose backlog is full.
func full(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for range 4 {
		c, err := net.Dial("unix", path)
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the backlog is not full")
}

// Two sockets of processes that end, one after the other, are each refused once: neither is replaced
// at its first check.
func TestEachDeadSocketIsCheckedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "csi.sock")
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for range 3 {
		other(t, path, false)
		time.Sleep(20 * time.Millisecond) // file times have the kernel's ticks
		if again, err := s.check(); again || err == nil {
			t.Errorf("replaced: %v, %v", again, err)
		}
	}
	if again, err := s.check(); !again || err != nil {
		t.Errorf("not replaced: %v", err)
	}
}

// The registration is not ready while its own socket is not reached.
func TestRegistrationNeedsItsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reg.sock")
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r, err := NewRegistration("driver", "/csi.sock")
	if err != nil {
		t.Fatal(err)
	}
	r.state, r.socket = nil, s
	other(t, path, true)
	_, _ = s.check()
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// A kubelet that refuses the driver is asked again less and less often, and at once after a success.
func TestRegistrationsThatAreRefused(t *testing.T) {
	r := &Registration{state: errNotAsked}
	var all time.Duration
	n := 0
	for ; all < time.Hour; n++ {
		r.retry = r.next()
		all += r.retry
	}
	if n > 70 {
		t.Errorf("%d registrations in an hour", n)
	}
	r.state = nil
	if r.retry = r.next(); r.retry != 0 {
		t.Errorf("after a success: %v", r.retry)
	}
	r.state = errNotAsked
	if r.retry = r.next(); r.retry != retryFirst {
		t.Errorf("after the next failure: %v", r.retry)
	}
}
