package tlsprofile

import (
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// read reads the object of a cluster with the profile; without one there is no object.
func read(t *testing.T, s *Source, profile map[string]any) (changed bool) {
	t.Helper()
	objects := fake.NewClientBuilder()
	if profile != nil {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tlsSecurityProfile": profile}}}
		o.SetGroupVersionKind(Kind)
		o.SetName(Object)
		objects = objects.WithObjects(o)
	}
	changed, err := s.Read(t.Context(), objects.Build())
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func environment(version, ciphers string) Profile {
	return Overrides(func(name string) string {
		return map[string]string{MinVersionVariable: version, CiphersVariable: ciphers}[name]
	})
}

const ecdsa256 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"

func TestPrecedence(t *testing.T) {
	custom := map[string]any{"type": "Custom", "custom": map[string]any{"minTLSVersion": "VersionTLS11",
		"ciphers": []any{"ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"}}}
	for name, row := range map[string]struct {
		overrides Profile
		cluster   map[string]any
		version   string
		ciphers   []string
	}{
		"nothing is set":              {version: "VersionTLS12", ciphers: intermediate},
		"no profile in the object":    {cluster: map[string]any{}, version: "VersionTLS12", ciphers: intermediate},
		"Old":                         {cluster: map[string]any{"type": "Old"}, version: "VersionTLS10", ciphers: slices.Concat(intermediate, old)},
		"Modern":                      {cluster: map[string]any{"type": "Modern"}, version: "VersionTLS13", ciphers: intermediate},
		"an unknown profile":          {cluster: map[string]any{"type": "Newest"}, version: "VersionTLS12", ciphers: intermediate},
		"Custom":                      {cluster: custom, version: "VersionTLS11", ciphers: []string{ecdsa256}},
		"the version is overridden":   {overrides: environment("VersionTLS13", ""), cluster: custom, version: "VersionTLS13", ciphers: []string{ecdsa256}},
		"the suites are overridden":   {overrides: environment("", ecdsa256+", AES256-SHA,"), cluster: custom, version: "VersionTLS11", ciphers: []string{ecdsa256, "TLS_RSA_WITH_AES_256_CBC_SHA"}},
		"overrides that are unknown":  {overrides: environment("TLS1.3", "BEST"), cluster: custom, version: "VersionTLS11", ciphers: []string{ecdsa256}},
		"overrides without a profile": {overrides: environment("VersionTLS13", ""), version: "VersionTLS13", ciphers: intermediate},
	} {
		s := New(row.overrides)
		read(t, s, row.cluster)
		if p := s.Current(); p.MinVersion != row.version || !slices.Equal(p.Ciphers, row.ciphers) {
			t.Errorf("%s: %+v, want %s and %v", name, p, row.version, row.ciphers)
		}
	}
}

func TestChangesAreReported(t *testing.T) {
	s := New(Profile{})
	for i, step := range []struct {
		profile map[string]any
		changed bool
	}{{nil, false}, {map[string]any{"type": "Modern"}, true}, {map[string]any{"type": "Modern"}, false}, {map[string]any{"type": "Intermediate"}, true}, {nil, false}} {
		if got := read(t, s, step.profile); got != step.changed {
			t.Errorf("step %d: changed %v, want %v", i, got, step.changed)
		}
	}
}

// Each suite of the profiles and of the names of OpenSSL exists.
func TestSuites(t *testing.T) {
	for _, name := range slices.Concat(intermediate, old) {
		if suite(name) == 0 {
			t.Error(name)
		}
	}
	for name, iana := range openSSL {
		if suite(iana) == 0 {
			t.Errorf("%s: %s", name, iana)
		}
	}
}

// A server that runs heeds a change with the next connection.
func TestServerFollowsTheProfile(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Profile{})
	config := &tls.Config{Certificates: []tls.Certificate{pair}} //nolint:gosec // set by Serve
	s.Serve(config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			server := tls.Server(conn, config)
			_ = server.Handshake() // the client sees what is wrong
			_ = conn.Close()
		}
	}()
	for _, step := range []struct {
		profile string
		version uint16
		served  bool
	}{
		{"Intermediate", tls.VersionTLS12, true}, {"Intermediate", tls.VersionTLS11, false},
		{"Modern", tls.VersionTLS12, false}, {"Modern", tls.VersionTLS13, true}, {"Old", tls.VersionTLS12, true},
	} {
		read(t, s, map[string]any{"type": step.profile})
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, //nolint:gosec // it has signed itself
			MinVersion: tls.VersionTLS10, MaxVersion: step.version, NextProtos: []string{"h2", "http/1.1"}})
		if (err == nil) != step.served {
			t.Errorf("%s, a client with at most %x: %v", step.profile, step.version, err)
		}
		if err == nil {
			if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("protocol %q", got)
			}
			_ = conn.Close()
		}
	}
}
