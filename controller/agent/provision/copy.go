package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// loudYields is how often a copy gives way to pods before its claim gets an event.
	loudYields = 3
	// copyAgainFirst and copyAgainLast bound the pause before a copy that failed starts again: it may have
	// written much before. A copy whose source was in use starts as soon as a pod ceases to use it.
	copyAgainFirst = 10 * time.Second
	copyAgainLast  = 5 * time.Minute
	// copiesLate is when a copy that goes on has its second event.
	copiesLate = 10 * time.Minute
)

// shouldCopy is ShouldProvision of a claim whose volume is a copy, and whose source is on this node. The
// answer is false while the copy is made; its end has the claim asked about again.
//
// The scheduler may have chosen another node for the claim. Then shouldCopy chooses this one in its place,
// and the answer is false until the watch reports that. It waits until Kubernetes has written the
// provisioner's name on the claim, which it does once the scheduler chose any node.
func (c *Controller) shouldCopy(ctx context.Context, b *backends.Backend, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) bool {
	chosen, _ := contract.NodeOf(claim, sc)
	delayed := contract.Delayed(sc)
	if delayed && (chosen == "" || claim.Annotations[contract.AnnStorageProvisioner] != sc.Provisioner) {
		return false
	}
	if pool, job, ok := c.jobOf(claim); ok && !ended(job) {
		if p, err := contract.ParametersOf(sc); err == nil && job.Spec.Exceeds(p.Fuzzy, p.CopyBytes) {
			pool.EndClone(job.Spec.Name) // the class was made again; the copy starts again as that permits
		} else {
			c.noteProgress(ctx, claim, pool, job)
		}
		c.Claims.RetryLater(claim.UID)
		return false
	}
	if c.copies.waits(claim.UID) {
		c.Claims.RetryLater(claim.UID)
		return false
	}
	if r := c.refusalOf(ctx, b, claim, sc); r != nil {
		c.refuse(ctx, claim, hereOnly(r))
		return false
	}
	if delayed && chosen != c.Info.Name() {
		c.chooseHere(ctx, claim, chosen)
		return false
	}
	return true
}

// hereOnly adds to a refusal for lack of space that no other node helps.
func hereOnly(r *refusal) *refusal {
	if r.reason == refusedSpace {
		r.message += "; no other node can serve this claim, because a copy is made on the node that has its source"
	}
	return r
}

// chooseHere writes this node on a claim for which the scheduler chose another one.
func (c *Controller) chooseHere(ctx context.Context, claim *corev1.PersistentVolumeClaim, chosen string) {
	err := nodechoice.Choose(ctx, c.Client, claim, c.Info.Name())
	source, _ := contract.CopiedClaim(claim)
	switch {
	case err == nil:
		c.Events.Note(ctx, events.Claim(claim), "copy node", events.Copying, fmt.Sprintf(
			"node %s has the volume of the claim %q, so the copy is made there, and not on node %s, which the scheduler had "+
				"chosen. A pod that must run on another node cannot use it: because of its nodeSelector or affinity, of another "+
				"claim, or of podAntiAffinity against the pods of other copies",
			c.Info.Name(), source.Name, chosen))
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the watch reports what changed
	case live.Permanent(err):
		c.refuse(ctx, claim, sourceRefused("node %s has the volume that is to be copied for this claim, and may not choose "+
			"itself in place of node %s: %v; apply this version's ClusterRole and policies", c.Info.Name(), chosen, err))
	default:
		klog.FromContext(ctx).Error(err, "Cannot choose this node for the claim, whose source is here; the agent tries again",
			"claim", klog.KObj(claim))
		c.Claims.RetryLater(claim.UID)
	}
}

// makeCopy makes the claim's volume as a copy, or returns it. The refusal is silent while the copy is made.
func (c *Controller) makeCopy(ctx context.Context, at place, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) (volume.Volume, *refusal) {
	from, r := c.originOf(ctx, at, claim, sc)
	if r != nil {
		return volume.Volume{}, r
	}
	p, _ := contract.ParametersOf(sc)
	spec := volume.NewCloneSpec(at.spec, p.Fuzzy, p.CopyBytes)
	spec.From, spec.Source = from.pool, &from.source
	spec.Ended = func(volume.CloneJob) { c.copyEnded(claim.UID) }
	v, err := c.Pools.Clone(at.pool, spec)
	if err == nil {
		c.copies.forget(claim.UID)
		return v, nil
	}
	r = c.refusalForCopy(at, claim, err)
	if job, ok := at.pool.CloneJob(at.spec.Name); ok && !ended(job) {
		c.noteProgress(ctx, claim, at.pool, job)
		c.Changed(at.pool)
	} else {
		c.copies.failed(claim.UID, inUse(err, from.source.Volume))
	}
	return v, r
}

// inUse returns the source if the copy failed because something uses it, and "" otherwise.
func inUse(err error, source string) string {
	if errors.Is(err, volume.ErrYielded) || errors.Is(err, volume.ErrSource) && errors.Is(err, volume.ErrInUse) {
		return source
	}
	return ""
}

// Unpublished starts the copies again that wait until a pod ceases to use the volume. The caller calls it
// when a volume was unmounted from a pod's directory. It never blocks.
func (c *Controller) Unpublished(volume string) {
	if c.copies.unpublished(volume) {
		c.Claims.Retry()
	}
}

// copyEnded has the claim asked about again.
func (c *Controller) copyEnded(claim types.UID) {
	c.Claims.RetryLater(claim)
	c.Claims.Retry()
}

// noteProgress records an event when a copy was begun, after ten minutes and each hour.
func (c *Controller) noteProgress(ctx context.Context, claim *corev1.PersistentVolumeClaim, pool *volume.Pool,
	job volume.CloneJob) {
	topic, since := "copy", time.Since(job.Began)
	switch hours := int(since.Hours()); {
	case hours > 0:
		topic = fmt.Sprintf("copy %dh", hours)
	case since >= copiesLate:
		topic = "copy 10m"
	}
	how := fmt.Sprintf("%d files and directories so far, and %s written", job.Entries, contract.Size(job.Bytes))
	if job.Waits {
		how = "it waits for other copies in the pool"
	}
	source, _ := contract.CopiedClaim(claim)
	c.Events.Note(ctx, events.Claim(claim), topic, events.Copying, fmt.Sprintf(
		"node %s copies the volume of the claim %q in pool %s, for %s by now: %s", c.Info.Name(), source.Name, pool.Name(),
		since.Round(time.Second), how))
}

// jobOf returns the job that makes the claim's volume, and its pool.
func (c *Controller) jobOf(claim *corev1.PersistentVolumeClaim) (*volume.Pool, volume.CloneJob, bool) {
	for _, pool := range c.Pools.All() {
		if job, ok := pool.CloneJob(contract.PVName(claim)); ok && job.Spec.Owner.UID == string(claim.UID) {
			return pool, job, true
		}
	}
	return nil, volume.CloneJob{}, false
}

func ended(job volume.CloneJob) bool {
	select {
	case <-job.Ended:
		return true
	default:
		return false
	}
}

// endCopies ends the copy of each claim that is gone. local are the claims of this node; that one of them
// is reported as deleted proves nothing, so the claim is read. If the watch was away, another claim of the
// same name is reported as a change of the former one.
func (c *Controller) endCopies(ctx context.Context, local cache.SharedIndexInformer) error {
	gone := func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			c.copies.forget(claim.UID)
			if _, _, ok := c.jobOf(claim); ok {
				go c.endCopy(ctx, claim)
			}
		}
	}
	_, err := local.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: gone, UpdateFunc: func(former, now any) {
		a, ok := former.(*corev1.PersistentVolumeClaim)
		b, ok2 := now.(*corev1.PersistentVolumeClaim)
		if ok && ok2 && a.UID != b.UID {
			gone(a)
		}
	}})
	return err
}

// endCopy ends the copy once the API server has said that its claim is gone. It tries again until the job
// has ended by itself.
func (c *Controller) endCopy(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	owner := record.Owner{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
	for {
		pool, job, ok := c.jobOf(claim)
		if !ok {
			return
		}
		now, err := live.Claim(ctx, c.Client, owner)
		if err == nil && now == nil {
			klog.FromContext(ctx).Info("Ending the copy of a volume, because its claim is gone", "claim", owner)
			pool.EndClone(job.Spec.Name)
		}
		if err == nil || ended(job) || !sleep.For(ctx, copyAgainFirst) {
			return
		}
	}
}
