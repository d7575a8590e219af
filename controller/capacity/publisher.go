package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// pace is the least pause between two passes, so that a burst of new
	// volumes is one write a second.
	pace = time.Second
	// retryLast bounds the pause after a pass that failed; it grows from pace.
	retryLast = 30 * time.Second
)

// Config is what a publisher needs. New checks it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name, and the value of its label class.TopologyNode
	Driver string // name of the CSI driver, and provisioner of its classes
	// Namespace is where the objects live: the agent's own.
	Namespace string
	// Pod is the agent's own pod. What controls it, a DaemonSet, owns the
	// objects; empty means that nobody does, for an agent outside a pod.
	Pod string
	// Pools of the node. The caller opens and closes them.
	Pools *volume.Pools
}

// Publisher publishes what the pools of one node can still promise. Make it
// with New, then Run it once.
type Publisher struct {
	config Config
	gauges map[string]*gauge // by pool
	wake   chan struct{}
	status status

	classes cache.SharedIndexInformer
	objects cache.SharedIndexInformer

	// Only the pass uses what follows.
	owner   *metav1.OwnerReference
	asked   bool                 // for the owner, in this pass
	swept   bool                 // what others left is gone
	written map[string]published // by object
	said    map[string]string    // class to its pool that is not on this node
}

// New checks the configuration and returns a publisher that does nothing until
// it is Run. The error says which setting is wrong.
func New(c Config) (*Publisher, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure capacity objects: %w", err)
	}
	p := &Publisher{
		config: c, gauges: map[string]*gauge{}, wake: make(chan struct{}, 1),
		written: map[string]published{}, said: map[string]string{},
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
		return fmt.Errorf("the node %q is not the name of a Node that the label %s can carry: %s", c.Node, class.TopologyNode, why[0])
	}
	if why := append(validation.IsDNS1123Subdomain(c.Driver), validation.IsValidLabelValue(c.Driver)...); len(why) > 0 {
		return fmt.Errorf("the driver name %q is not like a domain name of at most 63 bytes: %s", c.Driver, why[0])
	}
	return nil
}

// Changed says that a volume was made in or removed from the pool, that its
// trash gave space back, or that it became ready: it is asked at once. It never
// blocks.
func (p *Publisher) Changed(pool *volume.Pool) {
	if g := p.gauges[pool.Name()]; g != nil {
		g.tell()
	}
}

// Ready returns nil where the objects are as they should be, or why they are
// not: the API server does not answer, a permission is missing. A pool that is
// not ready is no reason; zero is published for it.
func (p *Publisher) Ready() error { return p.status.err() }

// Run publishes until the context ends. What stands in the way, the API server
// above all, is waited for. The objects stay behind.
func (p *Publisher) Run(ctx context.Context) error {
	if err := p.watch(); err != nil {
		return fmt.Errorf("watch for capacity objects: %w", err)
	}
	go p.classes.RunWithContext(ctx)
	go p.objects.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), p.classes.HasSynced, p.objects.HasSynced) {
		return nil
	}
	for _, g := range p.gauges {
		go g.run(ctx, p.kick)
	}
	p.loop(ctx)
	return nil
}

// kick asks for another pass.
func (p *Publisher) kick() { sleep.Wake(p.wake) }

// loop makes a pass whenever something may have changed, and from time to time
// for what has waited long enough.
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
			p.kick()
		} else {
			retry = failing
		}
		if !sleep.For(ctx, pause) || !sleep.OrWoken(ctx, askEvery, p.wake) {
			return
		}
	}
}
