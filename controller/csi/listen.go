package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// stopWithin is how long calls under way may take once the driver shall stop.
// None of them is long; whoever called tries again with the next process.
const stopWithin = time.Second

// dialFor is how long a live process may take to answer on its socket.
const dialFor = time.Second

// Listen opens the socket of an endpoint: unix:///path, unix://path or a plain
// path; a relative one resolves against /. Only this user may connect. A
// socket that nobody serves any more is replaced. Closing the listener removes
// the socket, unless another has taken its place.
//
// The error is about the endpoint: of another kind, served by a live process,
// or a file that is no socket.
func Listen(endpoint string) (net.Listener, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	if err := clearSocket(path); err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	// Done by hand below: by itself it would remove a successor's socket too.
	l.SetUnlinkOnClose(false)
	// The umask lets nobody else write, and so connect, before this either.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, errors.Join(err, l.Close()))
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, errors.Join(err, l.Close()))
	}
	return &socket{UnixListener: l, path: path, made: made}, nil
}

func socketPath(endpoint string) (string, error) {
	kind, path, found := strings.Cut(endpoint, ":")
	if !found || strings.Contains(kind, "/") {
		kind, path = "unix", endpoint
	}
	path = strings.TrimPrefix(path, "//")
	if kind != "unix" {
		return "", fmt.Errorf("endpoint %q: %s is not offered: CSI here has no authentication but that of a file; "+
			"use unix:///path/csi.sock", endpoint, kind)
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return "", fmt.Errorf("endpoint %q names no socket; use unix:///path/csi.sock", endpoint)
	}
	return filepath.Join("/", path), nil
}

// clearSocket removes a socket that nobody serves.
func clearSocket(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket has this path; remove it")
	}
	if c, err := net.DialTimeout("unix", path, dialFor); err == nil {
		_ = c.Close()
		return errors.New("another process serves it; stop that first")
	}
	return os.Remove(path)
}

// socket removes its own file when it is closed, and only that.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Close implements net.Listener.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path)
	}
	return s.UnixListener.Close()
}

// Serve answers calls on the listener until the context ends, and closes it
// then. Calls under way have a second to end. A listener that fails is the
// error; an ended context is none.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept(ctx)))
	csi.RegisterIdentityServer(g, s)
	csi.RegisterControllerServer(g, s)
	csi.RegisterNodeServer(g, s)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		timer := time.AfterFunc(stopWithin, g.Stop)
		defer timer.Stop()
		g.GracefulStop()
	})
	err := g.Serve(l)
	if stop() {
		g.Stop()
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}
