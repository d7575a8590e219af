// Package agent is the node agent: it reads its settings, whose table is in kube/settings, and
// builds, joins and runs the parts that they configure.
//
//	options.go    where each setting goes, and which need others
//	driver.go localpath.go migrate.go orphans.go provision.go serve.go    settings of one part each
//	compat.go     what dialects of other provisioners need
//	localpath_pools.go    what a changed configuration of the local-path provisioner does to pools
//	pools.go      which directories are pools
//	agent.go      builds the parts
//	agent_csi.go  builds those of the CSI driver
//	start.go      the order in which the parts begin that serve claims
//	group.go      what runs beside it, and how all of it ends
//	run.go        joins and runs them
//	usage.go      the help, and which errors are the caller's
package agent

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller/metrics"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/capacity"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/clientmetrics"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/agent/onlynode"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/agent/provision"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/agent/resize"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// Agent has the parts of one agent: the pools of a node, and the controllers that the options
// configure. A part that is not configured is nil.
type Agent struct {
	*Options
	outside  Outside
	pools    *volume.Pools
	monitors map[*volume.Pool]*monitor.PoolMonitor
	events   record.EventRecorder

	recorder  *events.Recorder        // nil in driver-only mode
	client    kubernetes.Interface    // nil in driver-only mode
	info      *nodeinfo.Info          // of the Node; nil in driver-only mode
	pvs       *pvs.PVs                // of this node; nil in driver-only mode
	claims    *claims.Claims          // of this node; nil in driver-only mode
	loop      *provision.Controller   // the provisioning loop; nil in driver-only mode
	startup   *startup                // of the loop
	group     *group                  // runs the parts; set by run
	resizer   *resize.Resizer         // grows volumes
	migrator  *migrate.Migrator       // replaces PVs
	onlyNode  *onlynode.Guard         // nil unless a dialect is for clusters of one node
	holds     map[string]func() error // why new claims wait, by provisioner; few have an entry
	publisher *capacity.Publisher     // publishes CSIStorageCapacity
	volumes   *monitor.VolumeMonitor
	probes    *prometheus.GaugeVec // of the pools
	orphans   *orphans.Checker
	original  *localpath.Original // nil if the agent does not stand in for the local-path provisioner
	driver    *csi.Server
	kubelet   *kubelet.Registration  // nil if a sidecar registers the driver
	seen      *nodeinfo.Driver       // whether the scheduler sees the driver; nil without claims of CSI classes
	library   metrics.Metrics        // of the provisioner library
	requests  *clientmetrics.Metrics // of client-go, with its queues; nil in driver-only mode
}

// Outside is what an agent shares with the world around its process. Zero values are the product's
// own.
type Outside struct {
	// Client is the client of the API server; nil is that of the settings. An agent that is given one
	// does not install its metrics of client-go, which has one receiver in a process.
	Client kubernetes.Interface
	// Pod is the name of the agent's pod; "" is that of the environment.
	Pod string
	// Step is called before each change to a disk, and may block; nil is the hook of the build.
	Step func(string)
	// Probe is the pause between probes of a pool; 0 is two seconds. A probe reads the mount table.
	Probe time.Duration
	// Mounted is that of volume.Config: whether the disk of a pool is mounted at the directory.
	Mounted func(dir string) error
	// Figures is that of volume.Config: it changes the figures of the filesystems.
	Figures func(*unix.Statfs_t)
}

// Run runs the agent with the flags in args until the context ends. If args ask for help, Run
// prints it to out and returns. ExitCode has the exit status for its errors.
func Run(ctx context.Context, version string, args []string, out io.Writer) error {
	o, err := Parse(version, args, out)
	if err != nil || o == nil {
		return settingError(err)
	}
	a, err := New(o, Outside{})
	if err != nil {
		return err
	}
	defer a.Close()
	listening, err := a.listen()
	if err != nil {
		return err
	}
	return a.run(ctx, append(a.parts(), listening...))
}

// New builds the parts of an agent. It opens no pool, address or socket. The caller closes the
// agent.
func New(o *Options, x Outside) (_ *Agent, err error) {
	if err := pooldir.CheckKernel(); err != nil {
		return nil, err
	}
	klog.Background().Info("Starting", "node", o.nodeName, "version", o.version, "hostPathClaims", o.provision.hostPath(),
		"csiClaims", o.provision.csi, "csiSocket", o.driver.endpoint, "http", o.address)
	if x.Step == nil {
		x.Step = step
	}
	a := &Agent{Options: o, outside: x, client: x.Client, monitors: map[*volume.Pool]*monitor.PoolMonitor{},
		holds: map[string]func() error{}, events: events.Discard{}}
	if !o.driverOnly() {
		if a.client == nil {
			if a.client, err = NewClient(o.kubeconfig, o.nodeName, o.qps); err != nil {
				return nil, err
			}
		}
		a.recorder = events.New(a.client, o.nodeName)
		a.events = a.recorder
	}
	for _, build := range []func() error{
		a.newPools, a.newLoop, a.newResizer, a.newMigrator, a.newOrphans, a.newPublisher, a.newDriver,
	} {
		if err := build(); err != nil {
			a.Close()
			return nil, settingError(err)
		}
	}
	return a, nil
}

// Serve runs every part that listens nowhere, until the context ends or a part fails. The caller
// calls it once.
func (a *Agent) Serve(ctx context.Context) error { return a.run(ctx, a.parts()) }

// Close releases the locks of all pools whose disks answer. A process with a thread that hangs on a
// disk does not end when it is killed, and keeps every lock that it has not released.
func (a *Agent) Close() {
	if a.recorder != nil {
		defer a.recorder.Close()
	}
	if a.pools == nil {
		return
	}
	for pool, err := range a.pools.Close() {
		klog.Background().Error(err, "The pool is not closed; the next agent waits for its disk", "pool", pool.Name())
	}
}

// newPools makes the pools and their monitors. It opens none.
func (a *Agent) newPools() (err error) {
	a.probes = monitor.NewProbes()
	var all []*volume.Pool
	for _, at := range a.layout.dirs {
		pool, err := a.newPool(at)
		if err != nil {
			return err
		}
		m := monitor.NewPoolMonitor(pool, a.events, events.Node(a.nodeName), a.probes, a.poolChanged)
		m.Every, m.RestoresAside = a.outside.Probe, a.driverOnly()
		a.monitors[pool] = m
		all = append(all, pool)
	}
	if a.pools, err = volume.NewPools(all...); err != nil {
		return err
	}
	a.volumes = monitor.NewVolumeMonitor(a.pools, a.events, a.nodeName)
	return nil
}

func (a *Agent) newPool(at DataDir) (pool *volume.Pool, err error) {
	c := volume.Config{
		Name: at.Name, Path: at.Path, Mount: at.Mount, Inner: at.inner, NotOffered: at.notOffered(), Mode: a.mode,
		Label:   a.selinuxLabel,
		Reserve: contract.WholeBytes(&a.reserve), Overcommit: a.overcommit, PurgeRate: a.purgeRate,
		CopyRate:       contract.WholeBytes(&a.copyRate),
		TrashRetention: a.retention.deleted, TrashRetentionMax: a.retention.most,
		EnableBtrfsQuota: a.btrfsQuota,
		Holder:           fmt.Sprintf("hostpath-provisioner (CSI driver) on node %s (host %s)", a.nodeName, hostname()),
		Step:             a.outside.Step, Mounted: a.outside.Mounted, Figures: a.outside.Figures,
	}
	if len(at.NodeSelector) > 0 {
		c.Selected = a.selected(at.NodeSelector)
	}
	if !a.driverOnly() {
		c.Holder = provision.Holder(a.nodeName, hostname())
		c.Expected = func() pooldir.Expected { return a.pvs.Expected(pool) }
	}
	pool, err = volume.New(c)
	return pool, err
}

// selected returns whether the labels of the node match the selector of a pool, as they were read last.
func (a *Agent) selected(selector map[string]string) func() (pooldir.Selection, string) {
	text := labels.Set(selector).String()
	return func() (pooldir.Selection, string) {
		if a.info == nil || a.info.Labels() == nil {
			return pooldir.Unknown, "the labels of the node are not known, and the pool has the nodeSelector " + text
		}
		if labels.SelectorFromSet(selector).Matches(labels.Set(a.info.Labels())) {
			return pooldir.Selected, ""
		}
		return pooldir.NotSelected, fmt.Sprintf("the labels of node %s do not match the pool's nodeSelector %s",
			a.nodeName, text)
	}
}

// newLoop makes the provisioning loop; serveClaims runs it.
func (a *Agent) newLoop() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.library = metrics.New("kubevirt_hpp")
	a.requests = clientmetrics.New()
	if a.outside.Client == nil {
		a.requests.Install() // before queues are made
	}
	a.info = nodeinfo.New(a.client, a.nodeName)
	c := backends.Config{Node: a.info, Pools: a.pools, Dialects: a.served()}
	if a.provision.csi {
		c.CSIDriver = a.Options.driver.name
	}
	of, err := backends.New(c)
	if err != nil {
		return err
	}
	a.newOnlyNode()
	a.newOriginal()
	a.startup = newStartup()
	a.pvs = pvs.New(pvs.Config{
		Client: a.client, Node: a.info, Events: a.recorder, Pools: a.pools, Backends: of.All,
		Others: a.migrate.others, Changed: a.changed,
	})
	a.claims = claims.New(claims.Config{
		Client: a.client, Node: a.nodeName, Events: a.recorder, PVs: a.pvs, Dialects: of.Dialects(), Refusal: of.Refusal,
		Space: a.space(of), Agents: nodeinfo.NewAgents(a.client, a.provision.namespace, a.provision.pod).Count,
	})
	a.loop, err = provision.New(provision.Config{
		Client: a.client, Events: a.recorder, Info: a.info, Claims: a.claims, PVs: a.pvs, Pools: a.pools, Backends: of,
		ReclaimPolicy: a.reclaimPolicy, WholeDisk: a.wholeDisk, Metrics: a.library, RetentionMax: a.retention.most,
		Hold: a.hold, Changed: a.changed,
	})
	return err
}

// newResizer makes the controller that grows volumes; the provisioning loop runs it.
func (a *Agent) newResizer() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.resizer, err = resize.New(resize.Config{Client: a.client, Node: a.nodeName, PVs: a.pvs, Events: a.recorder,
		Changed: a.changed})
	return err
}
