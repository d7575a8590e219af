package capacity

import (
	"context"
	"fmt"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// maxWhy bounds the published reason of a pool that is not open.
const maxWhy = 256

// poolsAgain is the least time between two writes that differ in a reason alone.
var poolsAgain = timing.Scaled(time.Minute)

func (p *Publisher) poolsName() string {
	return objectName(p.config.Driver, p.config.Node, contract.PoolsClass)
}

// putPools publishes which pools are open, if that is due. It does nothing before each pool was
// opened or had its time to: until then the object is that of the agent before, whose pod it names.
func (p *Publisher) putPools(ctx context.Context) error {
	o, err := p.cached(p.poolsName())
	if err != nil {
		return err
	}
	var before contract.NodePools
	if o != nil {
		before, _, _ = contract.PoolsOf(o)
	}
	now, known := p.pools(before)
	want := p.object(contract.PoolsClass, 0)
	want.Capacity, want.MaximumVolumeSize = nil, nil
	switch {
	case !known:
		return nil
	case o == nil || !sameMetadata(o, want): // as in put
		if err := p.findOwner(ctx); err != nil {
			return err
		}
	case samePools(before, now, time.Since(p.poolsAt) >= poolsAgain):
		return nil
	}
	want = p.object(contract.PoolsClass, 0)
	want.Capacity, want.MaximumVolumeSize = nil, nil
	return p.writePools(ctx, o, want, now)
}

// writePools creates the object, or updates o, as it is to be.
func (p *Publisher) writePools(ctx context.Context, o, want *storagev1.CSIStorageCapacity,
	now contract.NodePools) error {
	if o != nil && !sameKey(o, want) {
		return p.remove(ctx, o) // a later pass creates it again
	}
	to := want
	if o != nil {
		to = merged(o, want)
	}
	err := now.Publish(to)
	switch {
	case err != nil:
		return err
	case o == nil:
		_, err = p.api().Create(ctx, to, metav1.CreateOptions{})
	default:
		_, err = p.api().Update(ctx, to, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err) && o == nil: // the watch is behind, or the object lost its labels
		if o, err = p.api().Get(ctx, want.Name, metav1.GetOptions{}); err == nil {
			return p.writePools(ctx, o, want, now)
		}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the watch is behind
		p.requestPass()
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish the node's pools: %w", err)
	}
	p.poolsAt = time.Now()
	return nil
}

// pools returns the state of the pools. known is false while one of them may still open. It takes
// from before what it does not know: the UUID of a pool that is not open, and who had it open.
func (p *Publisher) pools(before contract.NodePools) (n contract.NodePools, known bool) {
	n = contract.NodePools{Pod: p.config.Pod, Pools: []contract.NodePool{}}
	for _, pool := range p.config.Pools.All() {
		if pool.NotOffered() != "" {
			continue
		}
		l, known := p.gauges[pool.Name()].sample(time.Now())
		if !known {
			return n, false
		}
		state := contract.NodePool{Name: pool.Name(), Path: pool.Path(), ID: pool.ID(), Open: l.ready}
		was, _ := before.Named(state.Name)
		switch {
		case l.ready:
			state.OpenIn = p.config.Pod
		case was.Path == state.Path:
			if state.ID == "" {
				state.ID = was.ID
			}
			state.OpenIn = was.OpenIn
		}
		if !l.ready {
			state.Why = strings.ToValidUTF8(l.why[:min(len(l.why), maxWhy)], "")
		}
		n.Pools = append(n.Pools, state)
	}
	return n, true
}

// samePools reports whether two states are the same, but for the reasons unless those count.
func samePools(a, b contract.NodePools, reasons bool) bool {
	if a.Pod != b.Pod || len(a.Pools) != len(b.Pools) {
		return false
	}
	for i, x := range a.Pools {
		y := b.Pools[i]
		if !reasons {
			x.Why, y.Why = "", ""
		}
		if x != y {
			return false
		}
	}
	return true
}
