package admission

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Clients that open connections and send nothing do not fill the memory: only so many are kept.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.11.0.1:0") // other tests use other addresses: the port stays free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c := fake.NewClientBuilder().Build()
	s, err := Server(address, c, client.ObjectKey{}, func(*tls.Config) {}, &Validator{Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Start(t.Context()) }()
	var all []net.Conn
	for end := time.Now().Add(20 * time.Second); len(all) < 400; {
		conn, err := net.Dial("tcp", address)
		if err != nil && time.Now().Before(end) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
	}
	closed := 0
	for end := time.Now().Add(4 * time.Second); closed < 100 && time.Now().Before(end); {
		closed = 0
		for _, conn := range all {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				closed++
			}
		}
	}
	if closed < 100 {
		t.Errorf("%d of %d connections were closed", closed, len(all))
	}
	if _, err := Server("127.0.0.1:no", c, client.ObjectKey{}, func(*tls.Config) {}, &Validator{}); err == nil {
		t.Error("a port that is none")
	}
}
