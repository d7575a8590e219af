package provision

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller/metrics"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Config configures a Controller. New validates it.
type Config struct {
	Client kubernetes.Interface
	Events *events.Recorder
	// Info is read before the library runs.
	Info *nodeinfo.Info
	// Claims, PVs and Pools of this node.
	Claims   *claims.Claims
	PVs      *pvs.PVs
	Pools    *volume.Pools
	Backends *backends.Backends
	// ReclaimPolicy of new PVs, hostPath and CSI; empty means the class's.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// RetentionMax bounds for how long a class may have its deleted volumes kept.
	RetentionMax time.Duration
	// WholeDisk sets the capacity of new PVs to the size of the filesystem in place of the
	// request, as older provisioners did. The allocation stays the request.
	WholeDisk bool
	// Metrics of the provisioner library, registered by the caller.
	Metrics metrics.Metrics
	// Hold returns why new claims of a provisioner wait, nil if they do not. Volumes that exist are
	// not affected. No event is recorded for ErrNotKnown. It must not block; may be nil.
	Hold func(provisioner string) error
	// Changed is called after a volume was created in or removed from the pool: its available space
	// is different, and its trash may have grown. It must not block; may be nil.
	Changed func(*volume.Pool)
}

// ErrNotKnown is the error of Config.Hold after the start, until it is known whether claims wait.
var ErrNotKnown = errors.New("it is not known yet whether the claim can be served")

// Controller is the provisioner of one node: what the provisioner library calls. Create it with
// New, then call Library once and run what it returns.
type Controller struct {
	Config

	deletions    *deletionProgress
	held         *claims.Patience       // claims whose pool another agent of this node has, or whose PV is not saved
	saving       *saving                // PVs that are sent again
	copies       *copies                // claims whose volumes are copies
	empty        *empties               // claims beside them
	refusals     *prometheus.CounterVec // by reason
	notedNoQuota sync.Map               // names of the pools for which noteNoQuota had an event
}

// New validates the config and returns a Controller.
func New(c Config) (*Controller, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	if c.Hold == nil {
		c.Hold = func(string) error { return nil }
	}
	return &Controller{Config: c, deletions: newDeletionProgress(), held: claims.NewPatience(),
		saving: newSaving(), copies: newCopies(), empty: newEmpties(), refusals: newRefusals()}, nil
}

func (c *Config) check() error {
	switch {
	case c.Client == nil:
		return errors.New("a client is required")
	case c.Events == nil:
		return errors.New("a recorder of events is required")
	case c.Pools == nil, c.Backends == nil:
		return errors.New("the pools of the node and its backends are required")
	case c.Info == nil, c.Claims == nil, c.PVs == nil:
		return errors.New("the node's info, its claims and its PVs are required")
	}
	return nil
}

// PoolChanged retries the claims that wait for a pool at once. The caller calls it when a
// pool becomes ready or has space again. It never blocks.
func (c *Controller) PoolChanged() { c.Claims.Retry() }
