package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the Service whose certificate it is, and of the Secret that has it.
const (
	Service = "hostpath-provisioner-operator-webhook-service"
	Secret  = Service + "-cert"
)

// bundle is the key of the Secret with the authorities of the certificate: those of this one and
// the one before.
const bundle = "ca.crt"

// issuer is the annotation of a Secret whose certificate cert-manager makes.
const issuer = "cert-manager.io/certificate-name"

// Lifetime is how long a certificate is valid. It is renewed when a third of that is left.
const Lifetime = 365 * 24 * time.Hour

// Ensure creates the Secret, or renews its certificate when that is due, and returns the
// authorities of it. It leaves a certificate of cert-manager alone. The caller sets the owner and
// the labels in metadata.
func Ensure(ctx context.Context, c client.Client, metadata metav1.ObjectMeta,
	now time.Time) (authorities []byte, err error) {
	host := Service + "." + metadata.Namespace + ".svc"
	var have corev1.Secret
	err = c.Get(ctx, client.ObjectKey{Namespace: metadata.Namespace, Name: Secret}, &have)
	absent := apierrors.IsNotFound(err)
	switch {
	case err != nil && !absent:
		return nil, fmt.Errorf("read Secret %s: %w", Secret, err)
	case !absent && (have.Annotations[issuer] != "" || !due(have.Data, host, now)):
		return have.Data[bundle], nil
	}
	data, err := renew(have.Data, host, now)
	if err != nil {
		return nil, err
	}
	want := have.DeepCopy()
	want.Data = data
	if absent {
		want.ObjectMeta, want.Type = metadata, corev1.SecretTypeTLS
		want.Name = Secret
		err = c.Create(ctx, want)
	} else {
		err = c.Update(ctx, want)
	}
	if err != nil {
		return nil, fmt.Errorf("save the certificate in Secret %s: %w", Secret, err)
	}
	return data[bundle], nil
}

// Trust sets the authorities of the webhook's certificate in its configuration, unless there are
// none: cert-manager may inject them.
func Trust(configuration *unstructured.Unstructured, authorities []byte) error {
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(authorities) == 0 {
		return err
	}
	for _, hook := range hooks {
		text := base64.StdEncoding.EncodeToString(authorities)
		if err := unstructured.SetNestedField(hook.(map[string]any), text, "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks")
}

// Expires returns when the certificate of the Secret expires, zero if there is none that is valid.
func Expires(ctx context.Context, c client.Reader, namespace string) (at time.Time, err error) {
	var have corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Secret}, &have); err != nil {
		return at, client.IgnoreNotFound(err)
	}
	found, err := pair(have.Data)
	if err != nil {
		return at, nil // the next pass renews it
	}
	return found.Leaf.NotAfter, nil
}

func pair(data map[string][]byte) (tls.Certificate, error) {
	return tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
}

// due reports whether a certificate is to be made: there is none that is for the host, that its
// authorities signed, that is valid now, and will be for another third of its life. One is not
// valid yet if the clock was ahead when it was made.
func due(data map[string][]byte, host string, now time.Time) bool {
	have, err := pair(data)
	if err != nil {
		return true
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[bundle])
	for _, at := range []time.Time{now, now.Add(Lifetime / 3)} {
		if _, err := have.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at}); err != nil {
			return true
		}
	}
	return false
}

// renew makes a certificate with an authority of its own, whose key is not kept. The authorities
// include the one before: until all operators serve the new one, both must be accepted.
func renew(before map[string][]byte, host string, now time.Time) (map[string][]byte, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	_, authority := pem.Decode(chain) // after the server's own
	all := append([]byte{}, authority...)
	if block, _ := pem.Decode(before[bundle]); block != nil {
		if old, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(old.NotAfter) {
			all = append(all, pem.EncodeToMemory(block)...)
		}
	}
	return map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key, bundle: all}, nil
}
