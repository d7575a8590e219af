package httpserver_test

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/util/cert"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

// serveTLS answers on a free port until the test ends.
func serveTLS(t *testing.T, how httpserver.TLS) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure, err := how.Certificate().Listener(l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- httpserver.Serve(ctx, secure, httpserver.MetricsHandler(prometheus.NewRegistry())) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// getTLS asks with a connection of its own, which trusts the roots alone.
func getTLS(address, path string, config *tls.Config) (status int, err error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	res, err := client.Get("https://" + address + path)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func wantStatus(t *testing.T, address, path string, config *tls.Config, want int) {
	t.Helper()
	if got, err := getTLS(address, path, config); err != nil || got != want {
		t.Errorf("%s: %d, %v, want %d", path, got, err, want)
	}
}

// shown returns the certificate that the address shows to anybody.
func shown(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestSelfSigned(t *testing.T) {
	address := serveTLS(t, httpserver.TLS{Hosts: []string{"localhost", "127.0.0.1", "metrics.ns.svc", "fd00::7"}, MinVersion: tls.VersionTLS13})
	leaf := shown(t, address)
	if key, ok := leaf.PublicKey.(*rsa.PublicKey); !ok || key.N.BitLen() < 2048 {
		t.Errorf("the key is a %T", leaf.PublicKey)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	wantStatus(t, address, "/metrics", &tls.Config{RootCAs: roots}, http.StatusOK)
	wantStatus(t, address, "/readyz", &tls.Config{RootCAs: roots}, http.StatusNotFound)
	for name, want := range map[string]bool{"localhost": true, "metrics.ns.svc": true, "fd00::7": true, "metrics": false, "fd00::8": false} {
		if _, err := getTLS(address, "/metrics", &tls.Config{RootCAs: roots, ServerName: name}); (err == nil) != want {
			t.Errorf("asked as %s: %v", name, err)
		}
	}
	if _, err := getTLS(address, "/metrics", &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("who does not know the certificate trusts it")
	}
	if again := shown(t, address); !again.Equal(leaf) {
		t.Error("every connection gets another certificate")
	}
	if other := shown(t, serveTLS(t, httpserver.TLS{MinVersion: tls.VersionTLS13})); other.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	names := []string{"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"}
	for i, name := range names {
		oldest, known := httpserver.TLSVersion(name)
		if want := tls.VersionTLS10 + uint16(i); oldest != want || !known {
			t.Errorf("%s: %x, %v, want %x", name, oldest, known, want)
		}
		address := serveTLS(t, httpserver.TLS{MinVersion: oldest})
		for v := uint16(tls.VersionTLS10); v <= tls.VersionTLS13; v++ {
			_, err := getTLS(address, "/metrics", &tls.Config{InsecureSkipVerify: true, MinVersion: v, MaxVersion: v})
			if (err == nil) != (v >= oldest) {
				t.Errorf("from %s on, %s: %v", name, tls.VersionName(v), err)
			}
		}
	}
	for _, name := range []string{"", "VersionTLS14", "1.2", "versiontls12"} {
		if v, known := httpserver.TLSVersion(name); v != tls.VersionTLS13 || known {
			t.Errorf("%q: %x, %v", name, v, known)
		}
	}
}

// madePair is a certificate for 127.0.0.1, its key, and who trusts it.
type madePair struct {
	cert, key []byte
	trust     *tls.Config
}

func makePair(t *testing.T) madePair { return makePairFor(t, 24*time.Hour) }

// makePairFor returns one that lasts so long.
func makePairFor(t *testing.T, lasts time.Duration) madePair {
	t.Helper()
	c, k, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "127.0.0.1", MaxAge: lasts})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c)
	return madePair{cert: c, key: k, trust: &tls.Config{RootCAs: roots}}
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	files := httpserver.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), MinVersion: tls.VersionTLS13}
	write := func(c, k []byte) {
		t.Helper()
		for path, data := range map[string][]byte{files.CertFile: c, files.KeyFile: k} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, second := makePair(t), makePair(t)
	write(first.cert, first.key)
	address := serveTLS(t, files)
	wantStatus(t, address, "/metrics", first.trust, http.StatusOK)

	// Half of the new pair is there, then nothing: the old one serves on.
	write(second.cert, first.key)
	wantStatus(t, address, "/metrics", first.trust, http.StatusOK)
	os.Remove(files.CertFile)
	wantStatus(t, address, "/metrics", first.trust, http.StatusOK)

	write(second.cert, second.key)
	wantStatus(t, address, "/metrics", second.trust, http.StatusOK)
	if _, err := getTLS(address, "/metrics", first.trust); err == nil {
		t.Error("the old certificate is still shown")
	}
}

func TestBadCertificateFilesAreAnErrorAtStart(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	a, b := makePair(t), makePair(t)
	for name, data := range map[string][]byte{"a.crt": a.cert, "a.key": a.key, "b.key": b.key, "junk": []byte("junk")} {
		if err := os.WriteFile(path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ cert, key, want string }{
		{"a.crt", "b.key", "does not match"},
		{"junk", "a.key", "certificate " + path("junk")},
		{"a.crt", "junk", "key " + path("junk")},
		{"none", "a.key", path("none")},
		{"a.crt", "none", path("none")},
	} {
		_, err := httpserver.TLS{CertFile: path(row.cert), KeyFile: path(row.key)}.Certificate().Listener(nil)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s with %s: %v, want words %q", row.cert, row.key, err, row.want)
		}
	}
}

// The exported time is that of the certificate in use, also after the files changed; without one
// there is none.
func TestCertificateExpiry(t *testing.T) {
	dir := t.TempDir()
	how := httpserver.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	certificate := how.Certificate()
	if n := testutil.CollectAndCount(certificate); n != 0 {
		t.Errorf("%d series without a certificate", n)
	}
	for _, days := range []int{1, 300} {
		pair := makePairFor(t, time.Duration(days)*24*time.Hour)
		for path, data := range map[string][]byte{how.CertFile: pair.cert, how.KeyFile: pair.key} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		left := time.Until(time.Unix(int64(testutil.ToFloat64(certificate)), 0)).Hours() / 24
		if math.Abs(left-float64(days)) > 0.5 {
			t.Errorf("%f days are left of %d", left, days)
		}
	}
	if left := time.Until(time.Unix(int64(testutil.ToFloat64(httpserver.TLS{}.Certificate())), 0)).Hours() / 24; left < 360 {
		t.Errorf("%f days are left of a self-signed one", left)
	}
}
