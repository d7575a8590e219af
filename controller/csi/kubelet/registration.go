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
)

// apiVersion is what the kubelet looks for in a CSI driver that registers.
const apiVersion = "1.0.0"

// Registration tells the kubelet of the driver, as the registrar sidecar does:
// the kubelet finds its socket in the plugin directory, asks where the driver
// is, and says whether it took it. It does not try again what failed, and asks
// anew only when the socket is new (pkg/kubelet/pluginmanager); so after a
// refusal it is given a new one.
type Registration struct {
	registration.UnimplementedRegistrationServer

	driver, endpoint string

	mu     sync.Mutex // guards what follows
	state  error      // why the kubelet does not use the driver, or nil
	socket *Socket    // that is served
}

// askAgain is the pause between a refusal and the next socket.
const askAgain = 2 * time.Second

var errNotAsked = errors.New("the kubelet has not registered the driver yet; it finds it by its socket in the plugin directory")

// NewRegistration is for the driver of that name, whose socket the kubelet
// sees at endpoint. Nothing is touched.
func NewRegistration(driver, endpoint string) (*Registration, error) {
	if !filepath.IsAbs(endpoint) || filepath.Clean(endpoint) != endpoint {
		return nil, fmt.Errorf("the kubelet cannot find the driver at %q: name the socket by its absolute path on the node, "+
			"such as /var/lib/kubelet/plugins/csi-hostpath/csi.sock", endpoint)
	}
	return &Registration{driver: driver, endpoint: endpoint, state: errNotAsked}, nil
}

// RegistrationSocket is the socket by which the kubelet finds the driver in a
// plugin directory.
func RegistrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Serve answers the kubelet on the socket until the context ends, and removes
// the socket then, so that the kubelet stops using the driver. The driver
// should be served before: the kubelet calls it at once.
func (r *Registration) Serve(ctx context.Context, l *Socket) error {
	log := klog.FromContext(ctx).WithValues("driver", r.driver)
	// The log goes where that of everything else goes.
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

// GetInfo tells the kubelet where the driver is.
func (r *Registration) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	klog.FromContext(ctx).V(4).Info("The kubelet asks for the driver", "endpoint", r.endpoint)
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{apiVersion},
	}, nil
}

// NotifyRegistrationStatus is the kubelet's word on what became of it.
func (r *Registration) NotifyRegistrationStatus(ctx context.Context, s *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	var state error
	log := klog.FromContext(ctx)
	if s.GetPluginRegistered() {
		log.Info("The kubelet registered the driver", "endpoint", r.endpoint)
	} else {
		state = fmt.Errorf("the kubelet did not register the driver at %s: %s", r.endpoint, s.GetError())
		log.Error(state, "The driver cannot be used by pods; the kubelet is asked again")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	if state != nil && r.socket != nil {
		time.AfterFunc(askAgain, r.socket.renew)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Ready is nil once the kubelet has registered the driver, and otherwise says
// why not, in the kubelet's words.
func (r *Registration) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
