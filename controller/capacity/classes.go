package capacity

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// poolOf returns the pool of a class that gets an object; false means that it
// gets none, because it is another driver's, or because the scheduler never
// asks for a class that binds at once.
//
// Parameters that would be refused are not looked at: without an object the
// scheduler would say that no node has the space, whereas the claim, once it
// comes to a node, is told what is wrong with its class.
func poolOf(c *storagev1.StorageClass, driver string) (pool string, ok bool) {
	if c.Provisioner != driver || !class.Delayed(c) {
		return "", false
	}
	return class.PoolName(c.Parameters), true
}

// limitless returns why a pool that is ready cannot hold volumes of the class to
// their size, where the class insists on that. Like a pool on another node, it is
// nothing for the scheduler to choose.
func limitless(c *storagev1.StorageClass, g *gauge) error {
	p, err := class.ParametersOf(c)
	if err != nil {
		return nil // as any parameter that would be refused
	}
	if l, known := g.level(time.Now()); !known || !l.ready {
		return nil
	}
	return g.pool.CheckQuota(p.Spec)
}

// wanted returns the pools' gauges by the class that there should be an object
// of. A class whose pool another node has, or whose pool here lacks the limits
// that it requires, gets none; that is said once.
func (p *Publisher) wanted(ctx context.Context) map[string]*gauge {
	wanted := map[string]*gauge{}
	for _, obj := range p.classes.GetStore().List() {
		c := obj.(*storagev1.StorageClass)
		pool, ok := poolOf(c, p.config.Driver)
		if !ok {
			continue
		}
		g, why := p.gauges[pool], "its pool is not on this node"
		if g != nil {
			err := limitless(c, g)
			if err == nil {
				wanted[c.Name] = g
				continue
			}
			why = err.Error()
		}
		if p.said[c.Name] != pool {
			p.said[c.Name] = pool
			klog.FromContext(ctx).Info("The scheduler sends no claims of this class here: "+why,
				"class", c.Name, "pool", pool, "pools", p.config.Pools.Names())
		}
	}
	return wanted
}
