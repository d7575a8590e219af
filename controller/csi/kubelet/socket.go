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

// keepEvery is how often a socket that is served is looked for. Without it
// nobody reaches the driver, so it is often; one look is one system call.
const keepEvery = time.Second

// Socket is a listener that outlives its file: while it is served, a file that
// somebody removed is made again. It leaves alone what has taken its place.
type Socket struct {
	path string

	mu       sync.Mutex // guards what follows
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

// Close implements net.Listener. It removes the socket, unless another has
// taken its place.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path)
	}
	return s.listener.Close()
}

// renew removes the file, so that keep makes a new one, which whoever watches
// the directory takes for a new socket. It leaves another's alone.
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
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for said := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		again, err := s.restore()
		switch {
		case err != nil && err.Error() != said:
			log.Error(err, "The socket was removed, and cannot be made again; remove what stands in the way")
			said = err.Error()
		case again:
			log.Info("The socket was removed by somebody and is there again")
			said = ""
		}
	}
}

// restore makes the socket again if nothing has its path, and reports whether
// it did. Connections that are open stay so.
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
	_ = old.Close() // nobody can reach it any more
	return true, nil
}
