package capacity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// pace is the least pause between two passes. It bounds the writes during a burst
	// of new volumes.
	pace = time.Second
	// retryLast bounds the pause after a failed pass, which grows from pace.
	retryLast = 30 * time.Second
)

// Config is the configuration of a Publisher. New validates it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name, and the value of its label contract.TopologyNode
	Driver string // name of the CSI driver, and provisioner of its classes
	// Namespace is the agent's own, and that of the objects.
	Namespace string
	// Pod is the agent's own pod, whose controller owns the objects. If it is empty,
	// as for an agent outside a pod, the objects have no owner.
	Pod string
	// Pools of the node. The caller opens and closes them.
	Pools *volume.Pools
}

// Publisher publishes the available space of a node's pools. Make it with New; call Run once.
type Publisher struct {
	config Config
	gauges map[string]*gauge // by pool
	wake   chan struct{}
	status status

	classes cache.SharedIndexInformer
	objects cache.SharedIndexInformer

	// Used by pass alone.
	owner     *metav1.OwnerReference
	ownerRead bool                 // in this pass, or not to be had
	ownerErr  error                // of that reading
	swept     bool                 // the objects of sidecars are deleted
	written   map[string]published // by object
	logged    map[string]string    // from a class to its pool that is not on this node
	poolsAt   time.Time            // of the last write of the pools; zero if this process has not written
}

// New returns a Publisher. The error names the wrong setting.
func New(c Config) (*Publisher, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure capacity objects: %w", err)
	}
	p := &Publisher{
		config: c, gauges: map[string]*gauge{}, wake: make(chan struct{}, 1),
		written: map[string]published{}, logged: map[string]string{},
	}
	for _, pool := range c.Pools.All() {
		p.gauges[pool.Name()] = newGauge(pool)
	}
	p.status.start()
	return p, nil
}

func (c *Config) check() error {
	switch {
	case c.Client == nil:
		return errors.New("a client is required")
	case c.Pools == nil:
		return errors.New("pools are required")
	case c.Namespace == "":
		return errors.New("the namespace is empty; set the one that the agent runs in")
	}
	if why := append(validation.IsDNS1123Subdomain(c.Node), validation.IsValidLabelValue(c.Node)...); len(why) > 0 {
		return fmt.Errorf("the node name %q cannot be the value of the label %s: %s", c.Node, contract.TopologyNode, why[0])
	}
	if why := append(validation.IsDNS1123Subdomain(c.Driver), validation.IsValidLabelValue(c.Driver)...); len(why) > 0 {
		return fmt.Errorf("the driver name %q is not a domain name of at most 63 bytes: %s", c.Driver, why[0])
	}
	return nil
}

// Changed causes a read of the pool now. The caller calls it after a volume was created,
// resized or deleted, the trash was purged, or the pool became ready. It never blocks.
func (p *Publisher) Changed(pool *volume.Pool) {
	if g := p.gauges[pool.Name()]; g != nil {
		g.changed()
	}
}

// Ready returns nil if the objects are current, and otherwise why not: the API server does not
// respond, or a permission is missing. A pool that is not ready has the size zero.
func (p *Publisher) Ready() error { return p.status.err() }

// Run publishes until the context ends, and leaves the objects. It retries after errors.
func (p *Publisher) Run(ctx context.Context) error {
	if err := p.watch(); err != nil {
		return fmt.Errorf("watch for capacity objects: %w", err)
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { p.classes.RunWithContext(ctx) })
	parts.Go(func() { p.objects.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), p.classes.HasSynced, p.objects.HasSynced) {
		return nil
	}
	for _, g := range p.gauges {
		parts.Go(func() { g.run(ctx, p.requestPass) })
	}
	p.loop(ctx)
	return nil
}

// requestPass causes another pass. It never blocks.
func (p *Publisher) requestPass() { sleep.Wake(p.wake) }

// loop runs a pass when one is requested, and every readEvery for writes whose delay is over.
func (p *Publisher) loop(ctx context.Context) {
	failing := wait.Backoff{Duration: pace, Factor: 2, Jitter: 0.1, Steps: 1 << 30, Cap: retryLast}
	retry := failing
	for {
		err := p.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		p.status.set(ctx, "publish", err)
		pause := pace
		if err != nil {
			pause = retry.Step()
			p.requestPass()
		} else {
			retry = failing
		}
		if !sleep.For(ctx, pause) || !sleep.OrWoken(ctx, readEvery, p.wake) {
			return
		}
	}
}
