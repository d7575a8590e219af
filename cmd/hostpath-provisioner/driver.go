package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/csi"
	"kubevirt.io/hostpath-provisioner/controller/health"
	"kubevirt.io/hostpath-provisioner/volume"
)

// driverOptions are the flags of the plain CSI driver. Their names and
// meanings are those of the older one, whose arguments must start this.
type driverOptions struct {
	endpoint   string
	name       string
	nodeID     string
	version    string
	dataDirs   string
	kubeletDir string
	// The kubelet is told of the driver where socketSeen is not empty.
	socketSeen, pluginDir string

	pools []dataDir
}

func (d *driverOptions) register(f *pflag.FlagSet) {
	f.StringVar(&d.endpoint, "endpoint", "",
		"socket of the CSI driver, as unix:///csi/csi.sock; with it this is a plain driver for the standard sidecars: PV_DIR and the claim loop are off, and so is --http-address unless it is given")
	f.StringVar(&d.name, "drivername", class.CSIProvisioner, "name of the CSI driver")
	f.StringVar(&d.nodeID, "nodeid", "", "node ID of the CSI driver, the Node's name; without it, that of --node-name")
	f.StringVar(&d.version, "version", version, "version that the CSI driver reports")
	f.StringVar(&d.dataDirs, "datadir", `[{"name":"`+class.DefaultPool+`","path":"/csi-data-dir"}]`,
		"pools of the CSI driver, as JSON; a relative path resolves against /")
	f.StringVar(&d.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's directory; volumes are mounted below it only")
	f.StringVar(&d.socketSeen, "kubelet-registration-path", "",
		"path of the CSI socket as the kubelet sees it; with it the driver registers itself with the kubelet, without it the registrar sidecar does")
	f.StringVar(&d.pluginDir, "plugin-registration-path", "/registration",
		"the kubelet's plugins_registry directory as this process sees it; names and default of both are the registrar sidecar's")
}

// plain reports whether the process is a CSI driver and nothing else.
func (d *driverOptions) plain() bool { return d.endpoint != "" }

// check says what is wrong with the flags of the driver. A pool whose disk is
// not there yet is not wrong: the others are served meanwhile.
func (d *driverOptions) check() (err error) {
	if d.pools, err = parseDataDirs(d.dataDirs); err != nil {
		return err
	}
	for _, p := range d.pools {
		if err := volume.Check(p.Path); errors.Is(err, volume.ErrInvalid) {
			return fmt.Errorf("--datadir: pool %q: %w", p.Name, err)
		}
	}
	return nil
}

// runDriver serves CSI until the context ends.
func runDriver(ctx context.Context, o *options) error {
	d := &o.driver
	o.nodeName = cmp.Or(d.nodeID, o.nodeName)
	log := klog.Background().WithValues("node", o.nodeName)
	ctx = klog.NewContext(ctx, log)
	log.Info("Starting as a plain CSI driver", "version", version, "driver", d.name, "endpoint", d.endpoint)
	var pools []*volume.Pool
	var parts []func(context.Context) error
	keepers := map[*volume.Pool]*health.Keeper{}
	for _, at := range d.pools {
		pool, err := newDriverPool(o, at)
		if err != nil {
			return err
		}
		defer pool.Close()
		k := health.NewKeeper(pool, silent{}, nodeReference(o.nodeName), func() {})
		pools, keepers[pool] = append(pools, pool), k
		parts = append(parts, func(ctx context.Context) error { k.Run(ctx); return nil })
	}
	all, err := volume.NewPools(pools...)
	if err != nil {
		return err
	}
	server, err := csi.New(csi.Config{
		DriverName: d.name, Version: d.version, NodeID: o.nodeName, KubeletDir: d.kubeletDir, Pools: all,
		Changed: func(p *volume.Pool) { keepers[p].Purge() },
	})
	if err != nil {
		return err
	}
	checks := poolChecks(pools)
	registration, err := d.registration()
	if err != nil {
		return err
	}
	if registration != nil {
		checks = append(checks, health.Check{Name: "kubelet", Err: registration.Ready})
	}
	registry := newRegistry(health.NewCollector(pools, health.SharedWithOS), server.Metrics())
	addresses, err := o.listen(registry, checks)
	if err != nil {
		return err
	}
	sockets, err := d.listen(server, registration)
	if err != nil {
		return err
	}
	// The pools open before any call is answered; one that cannot is tried
	// again by every call, and its keeper says so.
	for _, p := range pools {
		_ = p.Open()
	}
	return runTogether(ctx, slices.Concat(parts, addresses, sockets)...)
}

// registration is nil where the registrar sidecar tells the kubelet.
func (d *driverOptions) registration() (*csi.Registration, error) {
	if d.socketSeen == "" {
		return nil, nil
	}
	r, err := csi.NewRegistration(d.name, d.socketSeen)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-registration-path: %w", err)
	}
	return r, nil
}

// listen opens the sockets at once, so that one that cannot be is an error at
// start. That of the registration comes last: the kubelet then calls.
func (d *driverOptions) listen(server *csi.Server, r *csi.Registration) (parts []func(context.Context) error, err error) {
	l, err := csi.Listen(d.endpoint)
	if err != nil {
		return nil, err
	}
	parts = append(parts, func(ctx context.Context) error { return server.Serve(ctx, l) })
	if r == nil {
		return parts, nil
	}
	told, err := csi.Listen(csi.RegistrationSocket(d.pluginDir, d.name))
	if err != nil {
		return nil, fmt.Errorf("--plugin-registration-path: %w", errors.Join(err, l.Close()))
	}
	return append(parts, func(ctx context.Context) error { return r.Serve(ctx, told) }), nil
}

func poolChecks(pools []*volume.Pool) (checks []health.Check) {
	for _, p := range pools {
		checks = append(checks, health.Check{Name: "pool " + p.Path(), Err: p.Ready})
	}
	return checks
}

func newDriverPool(o *options, at dataDir) (*volume.Pool, error) {
	return volume.New(volume.Config{
		Name: at.Name, Path: at.Path, Mode: o.mode, Label: o.selinuxLabel, Inner: at.inner,
		Reserve: o.reserveBytes, Overcommit: o.overcommit, PurgeRate: o.purgeRate,
		Holder: fmt.Sprintf("hostpath-provisioner (CSI driver) on node %s (host %s)", o.nodeName, hostname()), Step: step,
	})
}

// silent writes no events: a plain driver does not talk to the API server. The
// keeper logs the same.
type silent struct{}

func (silent) Event(runtime.Object, string, string, string)          {}
func (silent) Eventf(runtime.Object, string, string, string, ...any) {}
func (silent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
