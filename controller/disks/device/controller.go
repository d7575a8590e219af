package device

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

const (
	// settle is how long a pass waits after what asked for it: a new disk and its links come
	// together.
	settle = 200 * time.Millisecond
	// absence is how long a device has to be away before its PV is withdrawn: udev replaces links.
	absence = 2 * time.Second
	// stopWithin is how long Run waits for wipes that were cancelled. A disk that hangs holds its
	// own longer.
	stopWithin = 2 * time.Second
)

// firstRetry is when a device that is busy or failed is tried again. The time doubles up to
// the polling interval, and for a wipe that failed up to lastRetry.
var (
	firstRetry = timing.Scaled(5 * time.Second)
	lastRetry  = timing.Scaled(24 * time.Hour)
)

// Recorder records the events of the controller.
type Recorder interface {
	Warn(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string)
}

// Config is what a Controller needs.
type Config struct {
	Client kubernetes.Interface
	Events Recorder
	// Node is the name of the Node, and Namespace that of the ConfigMaps.
	Node, Namespace string
	// ConfigMap is that of a Node without the annotation AnnSpec; "" is none.
	ConfigMap string
	// Interval is the longest time between two passes.
	Interval time.Duration
}

// Controller offers the devices of a node.
type Controller struct {
	Config
	node  string
	wake  chan struct{}
	wiped atomic.Int64 // bytes, since the start

	// Of the goroutine that makes passes.
	watched  *watch
	goneFrom map[types.UID]time.Time // PVs without a device
	wipes    map[string]bool         // Leases of the node

	running sync.WaitGroup // jobs

	mu      sync.Mutex // guards what follows
	seen    error      // nil after the first pass
	failure string     // of the last pass, "" if it succeeded
	reports []Report
	jobs    map[disk.Number]*job
	clean   map[disk.Number]cleaned
	begun   map[types.UID]bool // PVs for which a wipe was begun that did not succeed
}

// New returns a Controller that has done nothing yet.
func New(c Config) *Controller {
	return &Controller{
		Config: c, node: c.Node, wake: make(chan struct{}, 1), goneFrom: map[types.UID]time.Time{},
		seen: errors.New("the API server and the devices were not read yet"),
		jobs: map[disk.Number]*job{}, clean: map[disk.Number]cleaned{}, begun: map[types.UID]bool{},
	}
}

// Ready returns nil once a pass has read the Node, its PVs and its devices.
func (c *Controller) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// Run makes passes until the context ends. Wipes that are under way end then; they begin again when
// the next process runs.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.watch(ctx); err != nil {
		return err
	}
	defer c.observe(nil)
	defer c.stop()
	for {
		next := c.pass(ctx)
		if !sleep.OrWoken(ctx, next, c.wake) || !sleep.For(ctx, settle) {
			return nil
		}
	}
}

// stop waits for the jobs, whose context has ended.
func (c *Controller) stop() {
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stopWithin):
		klog.Background().Info("A disk does not answer; the process ends without it")
	}
}

// watch is the directory that is watched.
type watch struct {
	dir, names string
	watcher    *disk.Watcher
}

// observe watches the directory of the spec in place of the one before; nil watches none. A
// directory that cannot be watched is read at every interval.
func (c *Controller) observe(s *spec) {
	if c.watched != nil {
		if s != nil && c.watched.dir == s.dir && c.watched.names == s.filter.String() {
			return
		}
		c.watched.watcher.Close()
		c.watched = nil
	}
	if s == nil {
		return
	}
	w, err := disk.Watch(s.dir, s.filter, func() { sleep.Wake(c.wake) })
	if err != nil {
		klog.Background().Error(err, "New devices are found at the next interval", "interval", c.Interval)
		return
	}
	c.watched = &watch{s.dir, s.filter.String(), w}
}
