package provision

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// topicSpace is the refusal that a scheduler can do something about.
const topicSpace = "space"

// refusal is why a claim cannot be served here.
type refusal struct {
	topic   string // what the event is about; one event a topic
	message string
	// steady is the message without what is another at every look, "" where
	// that is nothing. The library says what goes back to the scheduler at every
	// round, and counts up what it said in the same words.
	steady string
	// forNow: the answer may change without anybody touching the claim.
	forNow bool
	// silent: another agent of this node serves the claim.
	silent bool
}

// refusalOf returns nil where nothing speaks against serving the claim now.
func (c *Controller) refusalOf(b *backend, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) *refusal {
	if err := b.check(claim, sc); err != nil {
		return &refusal{topic: "offered", message: err.Error()}
	}
	pool := b.pool(sc)
	if pool == nil {
		return c.noPool(sc)
	}
	if _, made := c.directoryOf(b, pool, claim); made {
		return nil // its space is promised already
	}
	space, err := pool.Space()
	if err == nil {
		err = pool.CheckQuota(specOf(claim, sc))
	}
	if err != nil {
		return c.refusalFor(pool, err)
	}
	if wanted := class.Bytes(claim); wanted > space.Available {
		return c.refusalFor(pool, &volume.SpaceError{
			Wanted: wanted, Available: space.Available, Total: space.Total, Estimate: space.Estimate,
		})
	}
	return nil
}

// directoryOf returns the directory of the claim's volume, and whether it was
// made already, by this loop or by the provisioner sidecar: what is recorded
// is never computed again.
func (c *Controller) directoryOf(b *backend, pool *volume.Pool, claim *corev1.PersistentVolumeClaim) (name string, made bool) {
	if v, err := pool.ByPV(class.PVName(claim)); err == nil {
		return v.Name, true
	}
	name = class.Directory(class.PVName(claim), claim.Name, b.prefix)
	v, err := pool.Get(name)
	return name, err == nil && v.Owner.UID == string(claim.UID)
}

// specOf is what a claim asks for, whatever its volume is called. The class was
// checked before.
func specOf(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) volume.Spec {
	p, _ := class.ParametersOf(sc)
	p.Spec.Bytes = class.Bytes(claim)
	p.Spec.Owner = volume.Owner{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
	return p.Spec
}

// refusalFor is what an error of the pool means to a claim.
func (c *Controller) refusalFor(pool *volume.Pool, err error) *refusal {
	var space *volume.SpaceError
	switch {
	case pool.NotOffered() != "":
		return &refusal{topic: claims.TopicUnserved, forNow: true, message: c.backends.notOffered(pool)}
	case errors.As(err, &space):
		exact := fmt.Sprintf(", promisable %d", space.Available)
		if space.Estimate {
			exact += ", estimated"
		}
		return &refusal{topic: topicSpace, forNow: true, message: c.noSpace(pool, space, exact), steady: c.noSpace(pool, space, "")}
	case errors.Is(err, volume.ErrNoSpace):
		return &refusal{topic: topicSpace, message: err.Error(), forNow: true}
	case errors.Is(err, volume.ErrNoQuotas):
		return &refusal{topic: "quota", forNow: true, message: fmt.Sprintf(
			"node %s cannot hold a volume in pool %s to its size, which the class requires (parameter %s): %v; "+
				"mend that, choose another node, or use a class without that parameter",
			c.info.Name(), pool.Name(), class.QuotaParameter, err)}
	case errors.Is(err, volume.ErrNotReady):
		return &refusal{topic: "ready", forNow: true, silent: heldHere(err, c.info.Name()), message: fmt.Sprintf(
			"node %s cannot serve this claim now, from pool %s in %s: %v; it will go on by itself once that is mended",
			c.info.Name(), pool.Name(), pool.Path(), err)}
	}
	return &refusal{topic: "volume", message: err.Error()}
}

// noPool says which pool is not there.
func (c *Controller) noPool(sc *storagev1.StorageClass) *refusal {
	return &refusal{topic: "pool", forNow: true, message: fmt.Sprintf(
		"node %s has no pool %q, which class %q asks for; it has %q; use a class of one of these, or keep the pods off this node",
		c.info.Name(), class.PoolName(sc.Parameters), sc.Name, c.pools.Names())}
}

// noSpace says what was asked, what there is, and what to do. exact is what
// stands in the brackets besides.
func (c *Controller) noSpace(pool *volume.Pool, e *volume.SpaceError, exact string) string {
	return fmt.Sprintf("node %s cannot promise %s: %s of %s in %s can be promised "+
		"(in bytes: wanted %d%s, total %d); ask for less, free space there, or choose another node",
		c.info.Name(), class.Size(e.Wanted), class.Size(e.Available), class.Size(e.Total), pool.Path(),
		e.Wanted, exact, e.Total)
}

// refuse says the refusal on the claim once, and keeps the claim in mind where
// the answer may change.
func (c *Controller) refuse(ctx context.Context, claim *corev1.PersistentVolumeClaim, r *refusal) {
	if !r.silent {
		c.events.Warn(ctx, events.Claim(claim), r.topic, events.ProvisioningFailed, r.message)
	}
	if r.forNow {
		c.claims.RetryLater(claim.UID)
	}
}
