package kubelet

import (
	"context"
	"errors"
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

// Socket is a listener that outlives its file: while it is served, it makes a removed
// file again. It does not touch another file at its path.
type Socket struct {
	path string

	mu       sync.Mutex // guards the fields below
	listener *net.UnixListener
	made     fs.FileInfo
	closed   bool
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
		again, err := s.restore()
		switch {
		case err != nil && err.Error() != logged:
			log.Error(err, "The socket was removed, and the agent cannot make it again; remove the file that has its path")
			logged = err.Error()
		case again:
			log.Info("The socket was removed; the agent made it again")
			logged = ""
		}
	}
}

// restore makes the file again if it is gone, and reports whether it did. Connections stay open.
func (s *Socket) restore() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Lstat(s.path); s.closed || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	l, made, err := bind(s.path)
	if err != nil {
		return false, err
	}
	old := s.listener
	s.listener, s.made = l, made
	_ = old.Close() // no client can reach it
	return true, nil
}
