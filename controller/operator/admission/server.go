package admission

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// path is the path of requests, which agent.yaml of the operator has too.
const path = "/validate-hostpathprovisioner-kubevirt-io-v1beta1-hostpathprovisioner"

// Server serves the decisions on the address. Every operator does, also one that does not
// reconcile. Each handshake reads the certificate from the cache, so that another one is served
// without a restart. settings changes other TLS settings.
func Server(address string, cache client.Reader, certificate client.ObjectKey, settings func(*tls.Config),
	v *Validator) (webhook.Server, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("webhook address: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("webhook address %q: the port is no number from 1 to 65535", address)
	}
	s := webhook.NewServer(webhook.Options{Host: host, Port: int(port), TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		settings(c)
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			var secret corev1.Secret
			if err := cache.Get(hello.Context(), certificate, &secret); err != nil {
				return nil, fmt.Errorf("read the certificate: %w", err)
			}
			found, err := pair(secret.Data)
			return &found, err
		}
	}}})
	s.Register(path, bounded(&admission.Webhook{Handler: v}))
	return s, nil
}
