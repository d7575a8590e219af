package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// apiVersion is the version that the kubelet requires of a CSI driver.
const apiVersion = "1.0.0"

// Registration registers the driver with the kubelet, as the registrar sidecar does:
// the kubelet finds its socket in the plugin directory, asks for the driver's endpoint,
// and reports the result. The kubelet does not retry, and asks again only if the socket
// is new (pkg/kubelet/pluginmanager); so Registration makes a new socket after a failure.
type Registration struct {
	registration.UnimplementedRegistrationServer

	driver, endpoint string

	mu     sync.Mutex    // guards the fields below
	state  error         // why the kubelet does not use the driver, or nil
	socket *Socket       // nil until Serve
	retry  time.Duration // the last pause; 0 after a success
}

// retryFirst and retryLast bound the pause between a failed registration and the next socket, which
// doubles after each failure.
const (
	retryFirst = 2 * time.Second
	retryLast  = time.Minute
)

var errNotAsked = errors.New("the kubelet has not registered the driver yet; it finds it by its socket in the plugin " +
	"directory")

// NewRegistration returns the registration of the driver; endpoint is the path of its
// socket as the kubelet sees it. It returns an error if that path is not absolute.
func NewRegistration(driver, endpoint string) (*Registration, error) {
	if !filepath.IsAbs(endpoint) || filepath.Clean(endpoint) != endpoint {
		return nil, fmt.Errorf("the kubelet cannot find the driver at %q: name the socket by its absolute path on the node, "+
			"such as /var/lib/kubelet/plugins/csi-hostpath/csi.sock", endpoint)
	}
	return &Registration{driver: driver, endpoint: endpoint, state: errNotAsked}, nil
}

// RegistrationSocket returns the path of the driver's registration socket in the plugin directory.
func RegistrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Serve serves the kubelet on the socket until the context ends, and then removes the
// socket, so that the kubelet stops using the driver. The caller serves the driver first,
// because the kubelet calls it at once.
func (r *Registration) Serve(ctx context.Context, l *Socket) error {
	log := klog.FromContext(ctx).WithValues("driver", r.driver)
	g := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return Guard(klog.NewContext(ctx, log), req, handler)
		}))
	registration.RegisterRegistrationServer(g, r)
	r.mu.Lock()
	r.socket = l
	r.mu.Unlock()
	return Serve(ctx, l, g)
}

// GetInfo returns the driver's name and endpoint.
func (r *Registration) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	klog.FromContext(ctx).V(4).Info("The kubelet asks for the driver", "endpoint", r.endpoint)
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{apiVersion},
	}, nil
}

// NotifyRegistrationStatus receives the result of the registration from the kubelet.
func (r *Registration) NotifyRegistrationStatus(ctx context.Context, s *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	var state error
	log := klog.FromContext(ctx)
	if s.GetPluginRegistered() {
		log.Info("The kubelet registered the driver", "endpoint", r.endpoint)
	} else {
		state = fmt.Errorf("the kubelet did not register the driver at %s: %s", r.endpoint, s.GetError())
		log.Error(state, "Pods cannot use the driver; it registers again")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	if r.retry = r.next(); r.retry > 0 && r.socket != nil {
		time.AfterFunc(r.retry, r.socket.renew)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// next returns the pause before the next registration, 0 if the last one succeeded. The caller holds
// mu.
func (r *Registration) next() time.Duration {
	if r.state == nil {
		return 0
	}
	return sleep.Doubled(r.retry, retryFirst, retryLast)
}

// Renew makes the kubelet register the driver again, by a new socket. The kubelet forgets the
// driver for a moment, so that is for a registration of no use. It does nothing before Serve.
func (r *Registration) Renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		r.socket.renew()
	}
}

// Ready returns nil if the kubelet has registered the driver, otherwise the kubelet's reason, or what
// has the path of the registration socket.
func (r *Registration) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		if err := r.socket.Ready(); err != nil {
			return err
		}
	}
	return r.state
}
