package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout is how long a live process may take to accept a connection on its socket.
const dialTimeout = time.Second

// Listen opens the socket of an endpoint: unix:///path, unix://path or a plain path; a relative one
// resolves against /. Only this user may connect. It replaces a socket that no process serves.
//
// It returns an error if the endpoint is not a Unix socket, if a live process serves
// it, or if another kind of file has its path.
func Listen(endpoint string) (*Socket, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	if err := clearSocket(path); err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	s := &Socket{path: path}
	if s.listener, s.made, err = bind(path); err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	return s, nil
}

// bind makes the socket. Only its owner ever has access: the file gets the mode of the
// socket (unix_bind in net/unix/af_unix.c).
func bind(path string) (*net.UnixListener, fs.FileInfo, error) {
	private := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var failed error
		err := socket.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	listener, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, nil, err
	}
	l := listener.(*net.UnixListener)
	// Close would otherwise also remove the socket of a later process.
	l.SetUnlinkOnClose(false)
	made, err := os.Lstat(path)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, made, nil
}

// SocketPath returns the path of the socket that an endpoint names, as Listen
// understands it. It returns an error for an endpoint that is not a Unix socket.
func SocketPath(endpoint string) (string, error) {
	kind, path, found := strings.Cut(endpoint, ":")
	if !found || strings.Contains(kind, "/") {
		kind, path = "unix", endpoint
	}
	path = strings.TrimPrefix(path, "//")
	if kind != "unix" {
		return "", fmt.Errorf("endpoint %q: %s is not supported: CSI here has no authentication but that of a file; "+
			"use unix:///path/csi.sock", endpoint, kind)
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return "", fmt.Errorf("endpoint %q names no socket; use unix:///path/csi.sock", endpoint)
	}
	return filepath.Join("/", path), nil
}

// clearSocket removes a socket that no process serves.
func clearSocket(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := refuses(path, st); err != nil {
		return err
	}
	return os.Remove(path)
}

// refuses returns nil if a file is a socket that no process serves, because it refuses connections.
// Any other answer may be that of a process that is busy.
func refuses(path string, st fs.FileInfo) error {
	if st.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket has this path; remove it")
	}
	c, err := net.DialTimeout("unix", path, dialTimeout)
	switch {
	case err == nil:
		_ = c.Close()
		return errors.New("another process serves it; stop that first")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("another process may serve it: %w; stop that first", err)
}
