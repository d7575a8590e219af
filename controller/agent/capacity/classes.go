package capacity

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// checkQuota returns an error if the class requires quotas and the pool, which is ready,
// does not enforce them. The scheduler must not choose such a pool.
func checkQuota(c *storagev1.StorageClass, g *gauge) error {
	p, err := contract.ParametersOf(c)
	if err != nil {
		return nil // see contract.PublishedPool
	}
	if l, known := g.sample(time.Now()); !known || !l.ready {
		return nil
	}
	return g.pool.CheckQuota(p.Spec)
}

// wanted returns the gauges of the classes that should have an object, by class. A class
// has none if its pool is not on this node or does not enforce the quotas that the class
// requires. That is logged once.
func (p *Publisher) wanted(ctx context.Context) map[string]*gauge {
	wanted := map[string]*gauge{}
	for _, obj := range p.classes.GetStore().List() {
		c := obj.(*storagev1.StorageClass)
		pool, ok := contract.PublishedPool(c, p.config.Driver)
		if !ok {
			continue
		}
		g, why := p.gauges[pool], "its pool is not on this node"
		if g != nil {
			err := checkQuota(c, g)
			if err == nil {
				wanted[c.Name] = g
				continue
			}
			why = err.Error()
		}
		if p.logged[c.Name] != pool {
			p.logged[c.Name] = pool
			klog.FromContext(ctx).Info("No capacity is published for this class, so the scheduler places none of its claims "+
				"on this node: "+why,
				"class", c.Name, "pool", pool, "pools", p.config.Pools.Names())
		}
	}
	return wanted
}
