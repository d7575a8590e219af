// Package agent is the node agent: flags and environment are read and checked, the parts that they
// ask for are built, joined and run.
//
//	options.go    the flags, and what is wrong with them
//	driver.go migrate.go orphans.go provision.go serve.go    flags of one concern, and what they mean
//	pools.go      which directories are pools
//	agent.go      the parts are built
//	run.go        joined, and run
//	usage.go      the help, and which errors are the caller's
package agent

import (
	"context"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller/metrics"

	"kubevirt.io/hostpath-provisioner/controller/capacity"
	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/clientmetrics"
	"kubevirt.io/hostpath-provisioner/controller/csi"
	"kubevirt.io/hostpath-provisioner/controller/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/migrate"
	"kubevirt.io/hostpath-provisioner/controller/monitor"
	"kubevirt.io/hostpath-provisioner/controller/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/orphans"
	"kubevirt.io/hostpath-provisioner/controller/provision"
	"kubevirt.io/hostpath-provisioner/controller/pvs"
	"kubevirt.io/hostpath-provisioner/controller/resize"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// agent is one process: the pools of a node, and around them what the options
// ask for. Parts that they do not ask for are nil.
type agent struct {
	*options
	pools    *volume.Pools
	monitors map[*volume.Pool]*monitor.PoolMonitor
	events   record.EventRecorder

	recorder  *events.Recorder      // nil in driver-only mode
	client    kubernetes.Interface  // nil in driver-only mode
	pvs       *pvs.PVs              // of this node; nil in driver-only mode
	loop      *provision.Controller // the claims that this process serves itself
	resizer   *resize.Resizer       // grows their volumes
	migrator  *migrate.Migrator     // replaces their PVs
	publisher *capacity.Publisher   // what the scheduler is told
	volumes   *monitor.VolumeMonitor
	probes    *prometheus.GaugeVec // of the pools
	orphans   *orphans.Checker
	driver    *csi.Server
	kubelet   *kubelet.Registration  // nil where a sidecar tells the kubelet
	library   metrics.Metrics        // of the claim loop
	requests  *clientmetrics.Metrics // of client-go, with its queues; nil in driver-only mode
}

// Run runs the agent, as the arguments of its command line say, until the context ends. It prints
// to out if help is asked for. ExitCode tells which errors are the caller's.
func Run(ctx context.Context, version string, args []string, out io.Writer) error {
	o, err := parseOptions(version, args, out)
	if err != nil || o == nil {
		return settingError(err)
	}
	return runAgent(ctx, o)
}

// runAgent builds the parts, joins them, and runs them until the context ends.
func runAgent(ctx context.Context, o *options) error {
	if err := pooldir.CheckKernel(); err != nil {
		return err
	}
	log := klog.Background().WithValues("node", o.nodeName)
	ctx = klog.NewContext(ctx, log)
	log.Info("Starting", "version", o.version, "hostPathClaims", o.provision.hostPath, "csiClaims", o.provision.csi,
		"csiSocket", o.driver.endpoint, "http", o.address)
	a := &agent{options: o, monitors: map[*volume.Pool]*monitor.PoolMonitor{}, events: events.Discard{}}
	if !o.driverOnly() {
		var err error
		if a.client, err = NewClient(o.kubeconfig, o.nodeName, o.qps); err != nil {
			return err
		}
		a.recorder = events.New(a.client, o.nodeName)
		defer a.recorder.Close()
		a.events = a.recorder
	}
	defer a.close()
	for _, build := range []func() error{
		a.newPools, a.newLoop, a.newResizer, a.newMigrator, a.newOrphans, a.newPublisher, a.newDriver,
	} {
		if err := build(); err != nil {
			return settingError(err)
		}
	}
	parts, err := a.parts()
	if err != nil {
		return err
	}
	if a.driverOnly() {
		a.open()
	}
	return runTogether(ctx, parts...)
}

// open opens the pools of a plain driver before it is called: nobody knows what
// PVs say of them. One that cannot be opened is tried again by every call, and
// its keeper says so. With a claim loop, that opens them.
func (a *agent) open() {
	a.pools.Open()
}

// close gives up the locks of all pools whose disks answer. It is essential that
// this process does: one with a thread that a disk holds does not end when it is
// killed, and with it stays every lock that it has.
func (a *agent) close() {
	if a.pools == nil {
		return
	}
	for pool, err := range a.pools.Close() {
		klog.Background().Error(err, "The pool is not closed; the next agent waits for its disk", "pool", pool.Name())
	}
}

// newPools makes the pools and who looks after them. None is opened yet.
func (a *agent) newPools() (err error) {
	a.probes = monitor.NewProbes()
	var all []*volume.Pool
	for _, at := range a.layout.dirs {
		pool, err := a.newPool(at)
		if err != nil {
			return err
		}
		a.monitors[pool] = monitor.NewPoolMonitor(pool, a.events, events.Node(a.nodeName), a.probes, a.looked)
		all = append(all, pool)
	}
	if a.pools, err = volume.NewPools(all...); err != nil {
		return err
	}
	a.volumes = monitor.NewVolumeMonitor(a.pools, a.events, a.nodeName)
	return nil
}

func (a *agent) newPool(at DataDir) (pool *volume.Pool, err error) {
	c := volume.Config{
		Name: at.Name, Path: at.Path, Mount: at.Mount, Inner: at.inner, NotOffered: at.notOffered(), Mode: a.mode, Label: a.selinuxLabel,
		Reserve: a.reserveBytes, Overcommit: a.overcommit, PurgeRate: a.purgeRate, EnableBtrfsQuota: a.btrfsQuota,
		Holder: fmt.Sprintf("hostpath-provisioner (CSI driver) on node %s (host %s)", a.nodeName, hostname()),
		Step:   step,
	}
	if !a.driverOnly() {
		c.Holder = provision.Holder(a.nodeName, hostname())
		c.Expected = func() pooldir.Expected { return a.pvs.Expected(pool) }
	}
	pool, err = volume.New(c)
	return pool, err
}

// newLoop makes the claim loop, which opens the pools when it runs.
func (a *agent) newLoop() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.library = metrics.New("kubevirt_hpp")
	a.requests = clientmetrics.New()
	a.requests.Install() // before queues are made
	node := provision.BackendsConfig{Node: a.nodeName, Pools: a.pools, Prefix: a.prefix}
	if a.provision.hostPath {
		node.HostPath = a.pools.Named(a.layout.hostPath)
	}
	if a.provision.csi {
		node.CSIDriver = a.options.driver.name
	}
	backends, err := provision.NewBackends(node)
	if err != nil {
		return err
	}
	info := nodeinfo.New(a.client, a.nodeName)
	a.pvs = pvs.New(pvs.Config{
		Client: a.client, Node: info, Events: a.recorder, Pools: a.pools, HostPath: node.HostPath, CSIDriver: node.CSIDriver,
		Others: a.migrate.others, Changed: a.changed,
	})
	local := claims.New(claims.Config{
		Client: a.client, Node: a.nodeName, Events: a.recorder, PVs: a.pvs, Rules: backends.Rules(), Refusal: backends.Refusal,
	})
	a.loop, err = provision.New(provision.Config{
		Client: a.client, Events: a.recorder, Info: info, Claims: local, PVs: a.pvs, Pools: a.pools, Backends: backends,
		ReclaimPolicy: a.policy, WholeDisk: a.wholeDisk, Workers: a.workers, Metrics: a.library,
		Opened: a.keep, Beside: a.beside, Changed: a.changed,
	})
	return err
}

// newResizer makes what grows the volumes of the loop's claims; the loop runs it.
func (a *agent) newResizer() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.resizer, err = resize.New(resize.Config{Client: a.client, Node: a.nodeName, PVs: a.pvs, Events: a.recorder, Changed: a.changed})
	return err
}

func (a *agent) newPublisher() (err error) {
	if !a.provision.csi || !a.provision.publish {
		return nil
	}
	a.publisher, err = capacity.New(capacity.Config{
		Client: a.client, Node: a.nodeName, Driver: a.options.driver.name,
		Namespace: a.provision.namespace, Pod: a.provision.pod, Pools: a.pools,
	})
	return err
}

func (a *agent) newDriver() (err error) {
	d := &a.options.driver
	if d.endpoint == "" {
		return nil
	}
	a.driver, err = csi.New(csi.Config{
		DriverName: d.name, Version: d.version, NodeID: a.nodeName, KubeletDir: d.kubeletDir, Pools: a.pools, Changed: a.changed,
		WholeDisk: a.wholeDisk, Adopt: !a.provision.csi, Unknown: a.unknown,
	})
	if err == nil {
		a.kubelet, err = d.registration()
	}
	return err
}
