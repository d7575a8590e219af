package httpserver

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const (
	// selfSignedFor is how long a self-signed certificate is valid, and renewBefore how long
	// before its end another one replaces it.
	selfSignedFor = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
)

// TLS configures an address that is served over HTTPS.
type TLS struct {
	// CertFile and KeyFile have the certificate and its key as PEM. Changes take effect
	// with the next connection. Without both the certificate is self-signed, its key stays
	// in memory, and it is renewed in time.
	CertFile, KeyFile string
	// Hosts are the names and IP addresses of the self-signed certificate.
	Hosts []string
	// MinVersion is the oldest accepted version, one of the constants of crypto/tls.
	MinVersion uint16
}

// Certificate returns the certificate of the configuration. It reads no file and makes none yet.
func (t TLS) Certificate() *Certificate {
	source := (&selfSigned{hosts: t.Hosts}).certificate
	if t.CertFile != "" || t.KeyFile != "" {
		source = (&filePair{cert: t.CertFile, key: t.KeyFile}).certificate
	}
	return &Certificate{source, t.MinVersion}
}

// Certificate is the current certificate of an address. As a prometheus.Collector it exports when
// that certificate expires.
type Certificate struct {
	source     func() (*tls.Certificate, error)
	minVersion uint16
}

// Listener returns a listener for TLS connections on l. It returns an error if it cannot read the
// files. If it cannot read them later, it logs the error and keeps the last valid certificate.
func (c *Certificate) Listener(l net.Listener) (net.Listener, error) {
	return c.ListenerWith(l, func(*tls.Config) {})
}

// ListenerWith is Listener with other TLS settings, which change sets.
func (c *Certificate) ListenerWith(l net.Listener, change func(*tls.Config)) (net.Listener, error) {
	if _, err := c.source(); err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     c.minVersion,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.source() },
	}
	change(config)
	return tls.NewListener(l, config), nil
}

var expiryDesc = prometheus.NewDesc("kubevirt_hpp_certificate_expiry_timestamp_seconds",
	"Unix time at which a certificate expires; the label use names what it serves.", []string{"use"}, nil)

// Describe implements prometheus.Collector.
func (c *Certificate) Describe(out chan<- *prometheus.Desc) { out <- expiryDesc }

// Collect implements prometheus.Collector. Without a valid certificate there is no series.
func (c *Certificate) Collect(out chan<- prometheus.Metric) {
	if current, err := c.source(); err == nil {
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(current.Leaf.NotAfter.Unix()),
			"metrics")
	}
}

// TLSVersion returns the version with a name that Kubernetes uses, VersionTLS10 to VersionTLS13. If
// the name is unknown it returns the newest version and false.
func TLSVersion(name string) (version uint16, known bool) {
	versions := map[string]uint16{
		"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
		"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
	}
	version, known = versions[name]
	return cmp.Or(version, tls.VersionTLS13), known
}

// filePair is a certificate in files. It reads both at every handshake: that takes less time than
// the handshake, and finds changes that keep the time stamp.
type filePair struct {
	cert, key string

	mu      sync.Mutex // guards the fields below
	read    [2][]byte  // the content of both files that current is from
	current *tls.Certificate
	logged  string // the last error, which is logged once
}

// certificate returns the last valid certificate. It returns an error if there has been none.
func (p *filePair) certificate() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.load()
	if err == nil {
		p.logged = ""
		return p.current, nil
	}
	if p.current == nil {
		return nil, err
	}
	if p.logged != err.Error() {
		p.logged = err.Error()
		klog.Background().Error(err, "Cannot read the new certificate; the previous one stays in use")
	}
	return p.current, nil
}

func (p *filePair) load() (err error) {
	var read [2][]byte
	for i, path := range []string{p.cert, p.key} {
		if read[i], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read certificate and key: %w", err)
		}
	}
	if p.current != nil && slices.EqualFunc(read[:], p.read[:], bytes.Equal) {
		return nil
	}
	pair, err := tls.X509KeyPair(read[0], read[1])
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", p.cert, p.key, err)
	}
	p.read, p.current = read, &pair
	return nil
}

// selfSigned is a certificate that this process signs itself. No client can know it in advance, so
// it hides what is read from others on the network and proves nothing.
type selfSigned struct {
	hosts []string

	mu      sync.Mutex // guards current
	current *tls.Certificate
}

// certificate returns the current certificate, and makes another one if it ends soon.
func (s *selfSigned) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && time.Now().Before(s.current.Leaf.NotAfter.Add(-renewBefore)) {
		return s.current, nil
	}
	made, err := sign(s.hosts)
	if err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	s.current = made
	return made, nil
}

// sign makes a key and a certificate for the hosts. It takes about 0.1 s of CPU.
func sign(hosts []string) (*tls.Certificate, error) {
	options := cert.SelfSignedCertKeyOptions{Host: "hostpath-provisioner", MaxAge: selfSignedFor}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, host)
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &pair, err
}
