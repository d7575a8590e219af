package admission

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A certificate is renewed while the one before is still valid, and both are trusted then.
func TestRenew(t *testing.T) {
	const host = Service + ".ns.svc"
	now := time.Now()
	first, err := renew(nil, host, now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := renew(first, host, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		data map[string][]byte
		host string
		at   time.Time
		due  bool
	}{
		"new":                {first, host, now, false},
		"renewed":            {second, host, now, false},
		"two thirds":         {first, host, now.Add(Lifetime * 2 / 3), true},
		"just before":        {first, host, now.Add(Lifetime*2/3 - 2*time.Hour), false},
		"made in the future": {first, host, now.Add(-3 * time.Hour), true},
		"made far ahead":     {first, host, now.Add(-100 * 24 * time.Hour), true},
		"another host":       {first, "other.ns.svc", now, true},
		"none":               {nil, host, now, true},
		"other authority":    {map[string][]byte{corev1.TLSCertKey: first[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: first[corev1.TLSPrivateKeyKey], bundle: nil}, host, now, true},
	} {
		if got := due(row.data, row.host, row.at); got != row.due {
			t.Errorf("%s: due %v", name, got)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(second[bundle])
	block, _ := pem.Decode(first[corev1.TLSCertKey])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		t.Errorf("the certificate before is not trusted: %v", err)
	}
	third, err := renew(second, host, now.Add(2*Lifetime))
	if err != nil || bytes.Count(second[bundle], []byte("BEGIN")) != 2 || bytes.Count(third[bundle], []byte("BEGIN")) != 1 {
		t.Errorf("authorities %s, then %s, %v", second[bundle], third[bundle], err)
	}
}
