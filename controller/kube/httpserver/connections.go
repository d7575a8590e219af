package httpserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// maxConnections is the number of connections that a server keeps. Each takes up to about 100 KiB.
const maxConnections = 256

// connections closes connections when there are more than maxConnections: the oldest of the
// client address that has the most. A client with few connections, such as the kubelet that
// probes, is served however many another one opens.
type connections struct {
	mu   sync.Mutex
	open []connection // the oldest first; guarded by mu
}

type connection struct {
	conn   net.Conn
	client string // the address without the port
}

// changed is a callback for http.Server.ConnState. It never blocks.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := c.add(conn); victim != nil {
			closeNow(victim)
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

// add adds the connection, and returns the one to close, maybe the new one, nil if there is room.
func (c *connections) add(conn net.Conn) (victim net.Conn) {
	client := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(client); err == nil {
		client = host
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, connection{conn, client})
	if len(c.open) <= maxConnections {
		return nil
	}
	count, most := map[string]int{}, ""
	for _, o := range c.open {
		if count[o.client]++; count[o.client] > count[most] {
			most = o.client
		}
	}
	for i, o := range c.open {
		if o.client == most {
			c.removeAt(i)
			return o.conn
		}
	}
	return nil
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range c.open {
		if o.conn == conn {
			c.removeAt(i)
			return
		}
	}
}

// removeAt removes an entry. The caller holds the lock.
func (c *connections) removeAt(i int) { c.open = append(c.open[:i], c.open[i+1:]...) }

// closeNow closes a connection. A TLS connection would first send an alert, which waits for a
// client that does not read.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close() // nothing is lost with it
}
