package disks

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

const (
	// debounce is the pause between the wake-up and the pass: a new disk and its links come
	// together.
	debounce = 200 * time.Millisecond
	// absence is how long a device has to be missing before its PV is withdrawn: udev replaces
	// links.
	absence = 2 * time.Second
	// stopWithin is how long Run waits for cancelled wipes. A disk that hangs blocks its wipe
	// longer.
	stopWithin = 2 * time.Second
)

// firstRetry is the time after which a busy or failed device is tried again. It doubles up to the
// polling interval, and for a failed wipe up to lastRetry.
var (
	firstRetry = timing.Scaled(5 * time.Second)
	lastRetry  = timing.Scaled(24 * time.Hour)
	// stuckAfter is how long a job has no progress until that is recorded. The longest step of one
	// that goes on reads 500 MiB of a slow disk.
	stuckAfter = timing.Scaled(10 * time.Minute)
)

// Recorder records the events of the controller.
type Recorder interface {
	Warn(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, obj corev1.ObjectReference, topic, reason, message string)
}

// Config has the dependencies and settings of a Controller.
type Config struct {
	Client kubernetes.Interface
	Events Recorder
	// Node is the name of the Node, and Namespace the namespace of the ConfigMaps and Leases.
	Node, Namespace string
	// ConfigMap is the ConfigMap of a Node without the annotation AnnSpec; "" is none.
	ConfigMap string
	// Interval is the longest time between two passes.
	Interval time.Duration
	// Devices is the block devices of the node; nil is those of this machine.
	Devices Devices
}

// Controller offers the devices of a node.
type Controller struct {
	Config
	node            string
	wake            chan struct{}
	wiped, verified atomic.Int64 // bytes, since the start

	// For the goroutine of Run alone.
	watched   Watcher                 // of the directory of devices, nil if it is not watched
	unwatched *spec                   // whose directory is to be watched once it is there; nil if there is none
	failures  int                     // passes that failed since the last one that did not
	goneFrom  map[types.UID]time.Time // PVs without a device
	wipes     map[string]bool         // Leases of the node
	listed    time.Time               // when the pass began to list PVs
	readAt    time.Time               // when the last pass began to read devices

	running sync.WaitGroup // jobs

	mu      sync.Mutex // guards the following fields
	seen    error      // nil after the first complete pass
	failure error      // of the last pass
	missing string     // the directory of devices if it does not exist
	reports []Report
	jobs    map[disk.Number]*job
	clean   map[disk.Number]cleaned
	made    map[disk.Number]time.Time // when the last PV of a device was made
	checked map[types.UID]time.Time   // when the disks of PVs without a claim were read
	taken   map[disk.Number]takenDisk
	begun   map[types.UID]bool // PVs for which a wipe was begun that did not succeed
}

// New returns a Controller. Run starts it.
func New(c Config) *Controller {
	if c.Devices == nil {
		c.Devices = hostDevices{}
	}
	return &Controller{
		Config: c, node: c.Node, wake: make(chan struct{}, 1), goneFrom: map[types.UID]time.Time{},
		seen: errors.New("the API server and the devices were not read yet"),
		jobs: map[disk.Number]*job{}, clean: map[disk.Number]cleaned{}, begun: map[types.UID]bool{},
		made:    map[disk.Number]time.Time{},
		checked: map[types.UID]time.Time{}, taken: map[disk.Number]takenDisk{},
	}
}

// Ready returns nil once a pass has read the Node, its PVs and its devices.
func (c *Controller) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// Missing returns that the directory of devices does not exist, "" if it does. The node has no device
// then, which is no failure: most nodes of a cluster may have none.
func (c *Controller) Missing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing == "" {
		return ""
	}
	return "the directory " + c.missing + " does not exist"
}

// Run makes passes until the context ends. Running wipes end then; the next process begins them
// again.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.watch(ctx); err != nil {
		return err
	}
	defer c.observe(nil)
	defer c.stop()
	for {
		next := c.pass(ctx)
		if !c.wait(ctx, next) || !sleep.For(ctx, debounce) {
			return nil
		}
	}
}

// wait waits for the next pass: for a time, or until something wakes the loop. It returns false if
// the context ended. A directory that does not exist cannot be watched, and is asked for meanwhile,
// without a request to the API server.
func (c *Controller) wait(ctx context.Context, next time.Duration) bool {
	for end := time.Now().Add(next); c.unwatched != nil; {
		pause := min(firstRetry, time.Until(end))
		if pause <= 0 {
			return true
		}
		before := time.Now()
		if !sleep.OrWoken(ctx, pause, c.wake) {
			return false
		}
		if time.Since(before) < pause { // woken
			return true
		}
		if c.observe(c.unwatched); c.unwatched == nil {
			return true
		}
	}
	return sleep.OrWoken(ctx, next, c.wake)
}

// stop waits for the jobs. Their context has ended.
func (c *Controller) stop() {
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stopWithin):
		klog.Background().Info("A disk does not respond; the process ends without waiting for it")
	}
}

// observe watches the directory of the spec in place of the previous one; nil watches none. A
// directory that cannot be watched is read at every interval.
func (c *Controller) observe(s *spec) {
	if s != nil && c.watched != nil && c.watched.Watches(s.dir, s.filter) {
		return
	}
	c.unobserve()
	if s == nil {
		return
	}
	w, err := c.Devices.Watch(s.dir, s.filter, func() { sleep.Wake(c.wake) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.unwatched = s
	case err != nil:
		klog.Background().Error(err, "New devices are found at the next interval", "interval", c.Interval)
	default:
		c.watched = w
		sleep.Wake(c.wake) // a device may have come between the reading and the watch
	}
}

// unobserve ends the watch.
func (c *Controller) unobserve() {
	if c.watched != nil {
		c.watched.Close()
	}
	c.watched, c.unwatched = nil, nil
}
