package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

type metricsOptions struct {
	address, cert, key, tls string
	tokens                  bool // clients need a token to read metrics
	volumes                 bool

	secure *httpserver.Certificate // of address; see certificate
}

// check validates flags that need others.
func (m *metricsOptions) check(driverOnly bool) error {
	switch {
	case m.cert != "" && m.key == "":
		return errors.New("--metrics-cert-file is given without --metrics-key-file; give both, or none for a self-signed " +
			"certificate")
	case m.key != "" && m.cert == "":
		return errors.New("--metrics-key-file is given without --metrics-cert-file; give both, or none for a self-signed " +
			"certificate")
	case m.tokens && driverOnly:
		return errors.New("--metrics-auth=token: in driver-only mode the agent does not use the API server; leave it out, " +
			"or set --provision")
	case m.tokens && m.address == "":
		return errors.New("--metrics-auth=token needs --metrics-address: the agent accepts tokens over TLS only")
	}
	return nil
}

// setAddresses sets the default addresses of driver-only mode. There, the liveness-probe sidecar
// may have the port of --http-address, and Prometheus reads that of the kubevirt CSI driver.
func (o *Options) setAddresses(f *pflag.FlagSet) {
	if !o.driverOnly() {
		return
	}
	if !f.Changed("http-address") {
		o.address = ""
	}
	if o.address == "" && !f.Changed("metrics-address") {
		o.metrics.address = settings.DriverMetricsAddress
	}
}

func newRegistry(parts ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(parts...)
	return registry
}

// listen opens the addresses and returns the functions that serve them. It opens them at once, so
// that a port in use is an error at start. An empty address is not served. health is the handler of
// the health port.
func (o *Options) listen(gatherer prometheus.Gatherer, health http.Handler) (parts []func(context.Context) error,
	err error) {
	if o.address != "" {
		l, err := net.Listen("tcp", o.address)
		if err != nil {
			return nil, fmt.Errorf("--http-address %s: %w", o.address, err)
		}
		parts = append(parts, func(ctx context.Context) error { return httpserver.Serve(ctx, l, health) })
	}
	if o.metrics.address != "" {
		l, err := o.metrics.listen()
		if err != nil {
			return nil, err
		}
		handler := httpserver.MetricsHandler(gatherer)
		if o.metrics.tokens {
			reviews, err := NewClient(o.kubeconfig, o.nodeName, httpserver.ReviewQPS)
			if err != nil {
				return nil, err
			}
			handler = httpserver.Authorized(reviews, handler)
		}
		parts = append(parts, func(ctx context.Context) error { return httpserver.Serve(ctx, l, handler) })
	}
	return parts, nil
}

// certificate returns the certificate of the address, the same at every call.
func (m *metricsOptions) certificate() *httpserver.Certificate {
	if m.secure == nil {
		version, _ := httpserver.TLSVersion(m.tls) // no name is the newest
		m.secure = httpserver.TLS{CertFile: m.cert, KeyFile: m.key, Hosts: ownHosts(os.Getenv),
			MinVersion: version}.Certificate()
	}
	return m.secure
}

func (m *metricsOptions) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", m.address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-address %s: %w", m.address, err)
	}
	secure, err := m.certificate().Listener(l)
	if err != nil {
		return nil, fmt.Errorf("--metrics-address %s: %w", m.address, errors.Join(err, l.Close()))
	}
	return secure, nil
}

// ownHosts returns the names and addresses of this process: localhost, its pod, and the Service
// that the environment names.
func ownHosts(env func(string) string) []string {
	hosts := []string{"localhost", "127.0.0.1"}
	if ip := env("POD_IP"); ip != "" {
		hosts = append(hosts, ip)
	}
	service, namespace := env("SERVICE_NAME"), env("POD_NAMESPACE")
	if service == "" {
		return hosts
	}
	hosts = append(hosts, service)
	if namespace != "" {
		hosts = append(hosts, service+"."+namespace, service+"."+namespace+".svc")
	}
	return hosts
}

type pprofOptions struct{ address string }

// listen opens the address and returns the function that serves it, or none if it is empty.
func (p *pprofOptions) listen() ([]func(context.Context) error, error) {
	if p.address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("--pprof-address %s: %w", p.address, err)
	}
	handler := httpserver.ProfileHandler()
	return []func(context.Context) error{func(ctx context.Context) error { return httpserver.Serve(ctx, l, handler) }}, nil
}
