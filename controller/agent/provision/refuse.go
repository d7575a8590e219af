package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Reasons of refusals: topics of their events, and values of the label reason of
// kubevirt_hpp_refusals_total.
const (
	refusedUnsupported = "unsupported" // the claim or its class; no retry helps
	refusedNoPool      = "no_pool"     // the node lacks the class's pool
	refusedNotReady    = "not_ready"   // the pool is not ready
	refusedWaiting     = "waiting"     // Config.Hold keeps new claims waiting
	refusedSpace       = "space"       // the only one that another node may not have
	refusedRoom        = "room"        // the agent removes kept volumes, and then serves the claim
	refusedQuota       = "quota"       // the class requires quotas
	refusedSource      = "source"      // what is to be copied
	refusedVolume      = "volume"      // the name is taken, or the volume cannot be created
)

// refusal is why a claim cannot be served here.
type refusal struct {
	reason  string
	message string
	// steady is the message without numbers that change all the time, "" if it has
	// none. The library records an event for each round with the scheduler, and
	// aggregates those with the same message.
	steady string
	// temporary is set if the answer may change while the claim stays the same.
	temporary bool
	// silent is set if another agent of this node may serve the claim, or if Config.Hold
	// has no answer yet: no event is recorded.
	silent bool
	// conflict is set if the name is taken, perhaps by a volume of the claim that does not fit.
	conflict bool
}

// topic returns the topic of the event: one for each reason, but one for each text about a source, which
// may be gone first, then in use, and then on a disk that shares no blocks.
func (r *refusal) topic() string {
	if r.reason == refusedSource {
		return events.Worded(r.reason, r.message)
	}
	return r.reason
}

// why returns what decides whether the claim goes back to the scheduler. If another agent of this
// node serves the claim, that agent answers. While this node makes room for it, it stays: on another
// node the room would be made again.
func (r *refusal) why() backends.Why {
	return backends.Why{NoSpace: r.reason == refusedSpace, Temporary: r.temporary && !r.silent && r.reason != refusedRoom}
}

// refusalOf returns why the claim cannot be served now, nil if it can. A refusal because another
// agent has the pool is silent for two minutes: a claim that waits longer is not that agent's.
func (c *Controller) refusalOf(ctx context.Context, b *backends.Backend, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) *refusal {
	r := c.refusalNow(ctx, b, claim, sc)
	if r != nil && r.silent && r.reason == refusedNotReady && c.held.Ends(claim.UID) {
		r.silent = false
	}
	return r
}

func (c *Controller) refusalNow(ctx context.Context, b *backends.Backend, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) *refusal {
	if err := cmp.Or(b.Check(claim, sc), c.checkRetention(sc)); err != nil {
		return &refusal{reason: refusedUnsupported, message: err.Error()}
	}
	at, r := c.placeOf(b, claim, sc)
	if at.made || r != nil {
		return r // the space of a volume that exists is already allocated
	}
	if err := c.Hold(sc.Provisioner); err != nil {
		return &refusal{reason: refusedWaiting, temporary: true, silent: errors.Is(err, ErrNotKnown), message: err.Error()}
	}
	if contract.Copies(claim, sc) {
		if r := c.refusalOfCopy(ctx, at, claim, sc); r != nil {
			return r
		}
	}
	space, err := at.pool.Space()
	if err == nil {
		err = at.pool.CheckQuota(at.spec)
	}
	if err != nil {
		return c.refusalFor(at.pool, err)
	}
	if err := space.CheckObtainable(at.spec.Bytes); err != nil {
		return c.refusalFor(at.pool, err)
	}
	return nil
}

// checkRetention returns an error if the class keeps its deleted volumes for too long. The error is for
// the user of the claim. The caller has checked the class.
func (c *Controller) checkRetention(sc *storagev1.StorageClass) error {
	p, _ := contract.ParametersOf(sc)
	if p.Spec.TrashRetention <= int64(c.RetentionMax/time.Second) {
		return nil
	}
	return fmt.Errorf("class %q: parameter %s is %s, and the agents accept at most %s (--trash-retention-max): ask for "+
		"less in another class, or have that raised", sc.Name, contract.RetentionParameter,
		sc.Parameters[contract.RetentionParameter], c.RetentionMax)
}

// refusalFor returns the refusal for an error of the pool.
func (c *Controller) refusalFor(pool *volume.Pool, err error) *refusal {
	var space *fault.SpaceError
	switch {
	case pool.NotOffered() != "":
		return &refusal{reason: claims.TopicUnserved, temporary: true, message: c.Backends.NotOffered(pool)}
	case errors.As(err, &space) && space.MakingRoom:
		return &refusal{reason: refusedRoom, temporary: true, message: fmt.Sprintf(
			"node %s makes room for this claim in %s: it removes deleted volumes that were kept for undelete, and serves "+
				"the claim once %s are free", c.Info.Name(), pool.Path(), contract.Size(space.Wanted))}
	case errors.As(err, &space) && space.NoInodes:
		return &refusal{reason: refusedSpace, temporary: true, message: fmt.Sprintf(
			"node %s: the filesystem of %s has no free inodes, so no volume can be created there, however small: "+
				"remove files there, or choose another node", c.Info.Name(),
			pool.Path())}
	case errors.As(err, &space):
		exact := fmt.Sprintf(", available %d", space.Available)
		if space.Estimate {
			exact += ", estimated"
		}
		return &refusal{reason: refusedSpace, temporary: true, message: c.noSpace(pool, space, exact),
			steady: c.noSpace(pool, space, "")}
	case errors.Is(err, volume.ErrNoSpace):
		return &refusal{reason: refusedSpace, message: err.Error(), temporary: true}
	case errors.Is(err, volume.ErrNoQuotas):
		return &refusal{reason: refusedQuota, temporary: true, message: fmt.Sprintf(
			"node %s cannot hold a volume in pool %s to its size, which the class requires (parameter %s): %v; "+
				"enable quotas there, choose another node, or use a class without that parameter",
			c.Info.Name(), pool.Name(), contract.QuotaParameter, err)}
	case errors.Is(err, volume.ErrNotReady):
		return &refusal{reason: refusedNotReady, temporary: true, silent: heldHere(err, c.Info.Name()), message: fmt.Sprintf(
			"node %s cannot serve this claim now from pool %s in %s: %v; the agent retries when the pool is ready",
			c.Info.Name(), pool.Name(), pool.Path(), err)}
	}
	return &refusal{reason: refusedVolume, message: err.Error(), conflict: errors.Is(err, volume.ErrConflict)}
}

// noSpace returns the message of a claim that does not fit. exact adds the available
// bytes, which change all the time.
func (c *Controller) noSpace(pool *volume.Pool, e *fault.SpaceError, exact string) string {
	return fmt.Sprintf("node %s: %s requested, %s of %s available in %s "+
		"(in bytes: requested %d%s, total %d): request less, free space there, or choose another node",
		c.Info.Name(), contract.Size(e.Wanted), contract.Size(e.Available), contract.Size(e.Total), pool.Path(),
		e.Wanted, exact, e.Total)
}

// refuse records the refusal as one event of the claim and counts it. It has the
// claim retried if the refusal is temporary.
func (c *Controller) refuse(ctx context.Context, claim *corev1.PersistentVolumeClaim, r *refusal) {
	if !r.silent {
		c.refusals.WithLabelValues(r.reason).Inc()
		c.Events.Warn(ctx, events.Claim(claim), r.topic(), events.ProvisioningFailed, r.message)
	}
	if r.temporary {
		c.Claims.RetryLater(claim.UID)
	}
}

// Holder returns the name that an agent writes into the lock of its pool. Another agent
// that finds the pool locked reports it.
func Holder(node, host string) string { return fmt.Sprintf("%s (host %s)", agentOf(node), host) }

func agentOf(node string) string { return events.Component + " on node " + node }

// heldHere reports whether the pool is not ready because another agent of this node has locked it.
// That agent may serve the node's claims, or is about to end.
func heldHere(err error, node string) bool {
	var held *fault.HeldError
	return errors.As(err, &held) && strings.HasPrefix(held.By, agentOf(node)+" ")
}
