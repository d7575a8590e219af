package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

type driverOptions struct {
	endpoint   string
	name       string
	nodeID     string
	version    string
	dataDirs   string
	kubeletDir string
	inline     contract.InlineVolumes
	socketSeen string // by the kubelet; if it is empty the driver does not register itself

	socket *kubelet.Socket // set by listen
}

// ready returns nil if clients reach the driver's socket, and before listen.
func (d *driverOptions) ready() error {
	if d.socket == nil {
		return nil
	}
	return d.socket.Ready()
}

// check refuses flags that need a CSI socket if there is none.
func (d *driverOptions) check() error {
	switch {
	case d.endpoint != "":
		_, err := kubelet.SocketPath(d.endpoint)
		return err
	case d.socketSeen != "":
		return errors.New("--kubelet-registration-path registers a CSI driver, and there is none without --endpoint")
	case d.dataDirs != "":
		return errors.New("--datadir names the pools of a CSI driver, and there is none without --endpoint; the pool of " +
			"hostPath claims is PV_DIR")
	}
	return nil
}

// registration returns nil if the registrar sidecar registers the driver.
func (d *driverOptions) registration() (*kubelet.Registration, error) {
	if d.socketSeen == "" {
		return nil, nil
	}
	r, err := kubelet.NewRegistration(d.name, d.socketSeen)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-registration-path: %w", err)
	}
	return r, nil
}

// listen opens the sockets and returns the functions that serve them. It opens them at once, so
// that a failure is an error at start, and the registration's last, because the kubelet then calls.
func (d *driverOptions) listen(server *csi.Server,
	r *kubelet.Registration) (parts []func(context.Context) error, err error) {
	l, err := kubelet.Listen(d.endpoint)
	if err != nil {
		return nil, err
	}
	d.socket = l
	parts = append(parts, func(ctx context.Context) error { return server.Serve(ctx, l) })
	if r == nil {
		return parts, nil
	}
	registry, err := kubelet.Listen(kubelet.RegistrationSocket(filepath.Join(d.kubeletDir, "plugins_registry"), d.name))
	if err != nil {
		return nil, fmt.Errorf("register with the kubelet below --kubelet-dir: %w", errors.Join(err, l.Close()))
	}
	return append(parts, func(ctx context.Context) error { return r.Serve(ctx, registry) }), nil
}
