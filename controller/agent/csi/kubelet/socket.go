package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// checkInterval is the pause between two checks for the file of a served socket. It is
// short because no client reaches the driver without the file; a check is one system call.
const checkInterval = time.Second

// Socket is a listener that outlives its file: while it is served, it makes a removed file again. It
// replaces the socket of another process that ended. It does not touch any other file at its path,
// and is not ready while there is one.
type Socket struct {
	path string

	mu       sync.Mutex // guards the fields below
	listener *net.UnixListener
	made     fs.FileInfo
	closed   bool
	state    error       // why no client reaches the socket, or nil
	dead     fs.FileInfo // the socket of another process that refused a connection at the last check, or nil
}

// Accept implements net.Listener.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		l := s.current()
		c, err := l.Accept()
		if err == nil || l == s.current() {
			return c, err
		}
	}
}

// Close implements net.Listener. It removes the file unless that is another socket's.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path)
	}
	return s.listener.Close()
}

// renew removes the file unless that is another socket's. keep then makes a new one,
// which the kubelet's watch of the directory reports as a new socket.
func (s *Socket) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := os.Lstat(s.path); !s.closed && err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path)
	}
}

// Addr implements net.Listener.
func (s *Socket) Addr() net.Addr { return s.current().Addr() }

func (s *Socket) current() *net.UnixListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener
}

// Ready returns nil if clients reach the socket, and otherwise what has its path.
func (s *Socket) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// keep makes the socket again whenever it is gone, until the context ends.
func (s *Socket) keep(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("socket", s.path)
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for logged := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		again, err := s.check()
		switch {
		case err != nil && err.Error() != logged:
			log.Error(err, "Clients do not reach the socket")
			logged = err.Error()
		case again:
			log.Info("The socket was removed or replaced; the agent made it again")
			logged = ""
		}
	}
}

// check is restore, and keeps its error for Ready.
func (s *Socket) check() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, nil
	}
	again, err := s.restore()
	s.state = nil
	if err != nil {
		s.state = fmt.Errorf("socket %s: %w", s.path, err)
	}
	return again, s.state
}

// restore makes the file again if it is gone, or if a socket is there that refuses connections at
// two checks in a row, because its process ended. It reports whether it did. Connections stay open.
// The error is that another file has the path. The caller holds mu.
func (s *Socket) restore() (bool, error) {
	now, err := os.Lstat(s.path)
	before := s.dead
	s.dead = nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case os.SameFile(now, s.made):
		return false, nil
	default:
		if err := refuses(s.path, now); err != nil {
			return false, err
		}
		// It may be about to listen. The inode of a socket whose process ended is used again.
		if s.dead = now; before == nil || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) {
			return false, errors.New("the socket of another process has this path, and refuses connections")
		}
		if err := os.Remove(s.path); err != nil {
			return false, err
		}
	}
	l, made, err := bind(s.path)
	if err != nil {
		return false, err
	}
	old := s.listener
	s.listener, s.made, s.dead = l, made, nil
	_ = old.Close() // no client can reach it
	return true, nil
}
