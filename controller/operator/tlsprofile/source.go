package tlsprofile

import (
	"context"
	"crypto/tls"
	"fmt"
	"reflect"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

// Kind is the kind of the object that has the profile of the cluster, and Object its name.
var Kind = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "APIServer"}

// Object is the name of the object of Kind.
const Object = "cluster"

// Source has the profile that applies. Its methods may be called at once.
type Source struct {
	overrides Profile
	cluster   atomic.Pointer[Profile]
}

// New returns a source without a profile of the cluster.
func New(overrides Profile) *Source { return &Source{overrides: overrides} }

// Current returns the profile that applies. Both of its fields are set.
func (s *Source) Current() Profile {
	p := s.overrides
	if of := s.cluster.Load(); of != nil {
		p = p.over(*of)
	}
	def, _ := Named("Intermediate")
	return p.over(def)
}

// Read reads the profile of the cluster, and reports whether another profile applies from now on. A
// cluster that does not serve the kind, or whose object has no profile, has none.
func (s *Source) Read(ctx context.Context, c client.Reader) (changed bool, err error) {
	before := s.Current()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(Kind)
	err = c.Get(ctx, client.ObjectKey{Name: Object}, o)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		s.cluster.Store(nil)
	case err != nil:
		return false, fmt.Errorf("read the TLS profile of the cluster: %w", err)
	default:
		s.cluster.Store(profileOf(o))
	}
	after := s.Current()
	if changed = !reflect.DeepEqual(before, after); changed {
		klog.InfoS("Another TLS profile applies", "minVersion", after.MinVersion, "cipherSuites", after.Ciphers)
	}
	return changed, nil
}

// profileOf returns the profile of the object, nil if it has none.
func profileOf(o *unstructured.Unstructured) *Profile {
	const source = "the APIServer " + Object
	name, _, _ := unstructured.NestedString(o.Object, "spec", "tlsSecurityProfile", "type")
	if name == "" {
		return nil
	}
	if name == "Custom" {
		version, _, _ := unstructured.NestedString(o.Object, "spec", "tlsSecurityProfile", "custom", "minTLSVersion")
		ciphers, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "tlsSecurityProfile", "custom", "ciphers")
		p := Of(source, version, ciphers)
		return &p
	}
	p, err := Named(name)
	if err != nil {
		klog.ErrorS(err, "The TLS profile is not applied", "source", source)
		return nil
	}
	return &p
}

// Serve has a server choose by the profile that applies at each handshake, and serve HTTP/1.1 only.
func (s *Source) Serve(c *tls.Config) {
	c.NextProtos = []string{"http/1.1"}
	c.MinVersion = tls.VersionTLS10 //nolint:gosec // the profile has the oldest version, at each handshake
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		p, now := s.Current(), c.Clone()
		now.GetConfigForClient = nil
		now.MinVersion, _ = httpserver.TLSVersion(p.MinVersion)
		for _, name := range p.Ciphers {
			now.CipherSuites = append(now.CipherSuites, suite(name))
		}
		return now, nil
	}
}
