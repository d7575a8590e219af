package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/csi"
	"kubevirt.io/hostpath-provisioner/controller/csi/kubelet"
)

// driverOptions are the flags of the CSI driver. Their names and meanings are
// those of the older one, whose arguments must start this.
type driverOptions struct {
	endpoint   string
	name       string
	nodeID     string
	version    string
	dataDirs   string
	kubeletDir string
	// The kubelet is told of the driver where socketSeen is not empty.
	socketSeen, pluginDir string
}

func (d *driverOptions) register(f *pflag.FlagSet, version string) {
	f.StringVar(&d.endpoint, "endpoint", "",
		"socket of the CSI driver, as unix:///csi/csi.sock; with it and without --provision this is a plain driver for the standard sidecars: PV_DIR is not looked at, and --http-address is off unless it is given")
	f.StringVar(&d.name, "drivername", class.CSIProvisioner, "name of the CSI driver")
	f.StringVar(&d.nodeID, "nodeid", "", "node ID of the CSI driver, the Node's name; without it, that of --node-name")
	f.StringVar(&d.version, "version", version, "version that the CSI driver reports")
	f.StringVar(&d.dataDirs, "datadir", os.Getenv("DATADIR"),
		"pools of the CSI driver, as JSON, a relative path resolves against /; without it a plain driver has "+plainPools+", and any other the pool "+class.DefaultPool+" in PV_DIR [DATADIR]")
	f.StringVar(&d.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's directory; volumes are mounted below it only")
	f.StringVar(&d.socketSeen, "kubelet-registration-path", "",
		"path of the CSI socket as the kubelet sees it; with it the driver registers itself with the kubelet, without it the registrar sidecar does")
	f.StringVar(&d.pluginDir, "plugin-registration-path", "/registration",
		"the kubelet's plugins_registry directory as this process sees it; names and default of both are the registrar sidecar's")
}

// check says what makes no sense without a driver.
func (d *driverOptions) check() error {
	switch {
	case d.endpoint != "":
		_, err := kubelet.SocketPath(d.endpoint)
		return err
	case d.socketSeen != "":
		return errors.New("--kubelet-registration-path registers a CSI driver, and there is none without --endpoint")
	case d.dataDirs != "":
		return errors.New("--datadir names the pools of a CSI driver, and there is none without --endpoint; the pool of hostPath claims is PV_DIR")
	}
	return nil
}

// registration is nil where the registrar sidecar tells the kubelet.
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

// listen opens the sockets at once, so that one that cannot be is an error at
// start. That of the registration comes last: the kubelet then calls.
func (d *driverOptions) listen(server *csi.Server, r *kubelet.Registration) (parts []func(context.Context) error, err error) {
	l, err := kubelet.Listen(d.endpoint)
	if err != nil {
		return nil, err
	}
	parts = append(parts, func(ctx context.Context) error { return server.Serve(ctx, l) })
	if r == nil {
		return parts, nil
	}
	told, err := kubelet.Listen(kubelet.RegistrationSocket(d.pluginDir, d.name))
	if err != nil {
		return nil, fmt.Errorf("--plugin-registration-path: %w", errors.Join(err, l.Close()))
	}
	return append(parts, func(ctx context.Context) error { return r.Serve(ctx, told) }), nil
}
