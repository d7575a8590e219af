package pvs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func (p *PVs) runWorker(ctx context.Context) {
	go func() {
		<-ctx.Done()
		p.queue.ShutDown()
	}()
	for {
		name, stop := p.queue.Get()
		if stop {
			return
		}
		if err := p.sync(ctx, name); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot bind a PV to its volume yet", "PV", name, "err", err)
			p.queue.AddRateLimited(name)
		} else {
			p.queue.Forget(name)
		}
		p.queue.Done(name)
	}
}

// sync validates a PV and binds its volume's record to it. It adopts a directory without
// a record, and rebinds a volume whose PV was given to another claim. It records an event
// on a PV that it refuses. The error means that the PV must be handled again.
func (p *PVs) sync(ctx context.Context, name string) error {
	pv := p.Saved(name)
	if pv == nil {
		p.forgetClaim(name)
		err := p.syncVanished(ctx, name)
		if err == nil {
			p.vanished(name)
		}
		return err
	}
	return errors.Join(p.syncSaved(ctx, pv), p.recordRetain(pv))
}

func (p *PVs) syncSaved(ctx context.Context, pv *corev1.PersistentVolume) error {
	b := p.backendOf(pv)
	if b == nil {
		p.warnUnserved(ctx, pv)
		return nil
	}
	p.askNodes(ctx, b, pv, resync)
	if err := p.reportPool(ctx, pv); err != nil {
		return err
	}
	pool, directory, err := b.validate(pv)
	if err != nil {
		p.refuse(ctx, pv, err)
		return nil
	}
	if pv.DeletionTimestamp == nil || contract.HasFinalizer(pv) { // without the finalizer it is gone in a moment
		p.warnUndeletable(ctx, pv, b.Deletable(pv))
	}
	v, err := pool.Get(directory)
	switch {
	case errors.Is(err, volume.ErrSetAside):
		return p.syncSetAside(ctx, b, pv, pool, directory)
	case errors.Is(err, volume.ErrNotFound):
		return p.syncUnknown(ctx, b, pv, pool, directory)
	case errors.Is(err, volume.ErrDamaged), errors.Is(err, volume.ErrInvalid):
		// the name is that of a pool inside this one
		p.refuse(ctx, pv, err)
		return nil
	case err != nil:
		return err
	case v.Migrating() != nil:
		return nil // the migration handles both PVs
	}
	v, err = p.reconcileClaim(ctx, b, pv, pool, v)
	switch {
	case errors.Is(err, errPending), errors.Is(err, volume.ErrNotReady):
		return err
	case err != nil:
		p.refuse(ctx, pv, err)
		return nil
	case v.State == record.Deleting:
		return nil
	}
	if err := p.bind(ctx, pv, pool, v); err != nil {
		return err
	}
	p.recordClaim(pv)
	return errors.Join(p.annotate(ctx, pv, pool), p.reportLeftOut(ctx, pv, pool, v))
}

func (p *PVs) bind(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume) error {
	binding := p.binding(pv, cmp.Or(ownerOf(pv), v.Owner))
	if err := p.recognize(ctx, pv, v.Record, &binding); err != nil {
		return err
	}
	if binding.UID == "" {
		p.warnUndeletable(ctx, pv, p.mayDelete(pv, p.object(pv, v.Record)))
	}
	changed, err := pool.Bind(v.Name, binding)
	if changed {
		p.Changed(pool)
	}
	return err
}

func (p *PVs) binding(pv *corev1.PersistentVolume, owner record.Owner) volume.Binding {
	return volume.Binding{
		PV: pv.Name, Owner: owner, Cluster: p.Node.Cluster(),
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
	}
}

// annotate writes the pool's UUID on the PV of an adopted volume, so that the agent can
// verify the pool by it. It writes the UIDs of Node and cluster on the PV of any volume: if
// the Node was created again, the operator would take the volume for lost with the older
// one. It removes the report of a missing volume. It does nothing if the PV is correct.
func (p *PVs) annotate(ctx context.Context, pv *corev1.PersistentVolume, pool *volume.Pool) error {
	wrong := map[string]any{}
	if pv.Annotations[contract.AnnPool] == "" {
		wrong[contract.AnnPool] = pool.ID()
	}
	for key, uid := range map[string]string{contract.AnnNodeUID: p.Node.UID(), contract.AnnCluster: p.Node.Cluster()} {
		if uid != "" && pv.Annotations[key] != uid {
			wrong[key] = uid
		}
	}
	// The other marks prove the node, so this one was lost or overwritten.
	if by := pv.Annotations[contract.AnnProvisionedBy]; by == contract.HostPathProvisioner &&
		pv.Annotations[contract.AnnProvisionOnNode] != p.Node.Name() {
		wrong[contract.AnnProvisionOnNode] = p.Node.Name()
	}
	if _, reported := pv.Annotations[contract.AnnMissing]; reported {
		wrong[contract.AnnMissing] = nil
	}
	if len(wrong) == 0 || !p.Node.MayPatchPVs() {
		return nil
	}
	return p.patchMeta(ctx, pv, "annotations", wrong)
}

// refuse records an event: the agent does not touch the PV, and the reason. It does not advise to
// delete a PV that a claim uses, or that is not what is wrong.
func (p *PVs) refuse(ctx context.Context, pv *corev1.PersistentVolume, why error) {
	remedy := "; correct the PV, or delete it once its data is safe"
	switch {
	case errors.As(why, new(Kept)):
		remedy = "" // it says what to do
	case errors.Is(why, volume.ErrDamaged), errors.Is(why, volume.ErrConflict):
		remedy = "; keep the PV, and correct what is named"
	case pv.Status.Phase == corev1.VolumeBound:
		remedy = "; correct the PV, which a claim uses"
	}
	p.Events.Warn(ctx, events.PV(pv), "refused", events.VolumeRefused, fmt.Sprintf(
		"node %s leaves this PV and its data alone: %v%s", p.Node.Name(), why, remedy))
}

// warnUnserved records an event about a PV of a provisioner that an agent with this pool served
// before: the open pool has its volume. It does nothing if the volume is in no pool of this agent,
// because another agent of the node may serve it, or if PVs of that provisioner are migrated.
func (p *PVs) warnUnserved(ctx context.Context, pv *corev1.PersistentVolume) {
	by, other := pv.Annotations[contract.AnnProvisionedBy], contract.MadeByOther(pv)
	var remedy string
	switch {
	case contract.MadeBy(pv, p.Others) != nil:
		return
	case other != nil:
		remedy = fmt.Sprintf("add %s to --compat (COMPAT) again, or migrate the PV (MIGRATE_FROM=%s)", other.Setting, by)
	case by == contract.HostPathProvisioner:
		remedy = "serve both kinds of PV (--provision=hostpath,csi), as manifests/examples/both-modes does"
	default:
		return
	}
	pool, directory := backends.PoolAt(p.Pools.All(), contract.DirectoryOf(pv))
	if pool == nil || backends.CheckPool(pv, pool) != nil {
		return
	}
	if v, err := pool.Get(directory); err != nil || v.PV != pv.Name || v.Migrating() != nil {
		return
	}
	p.Events.Warn(ctx, events.PV(pv), "unserved PV", events.VolumeRefused, fmt.Sprintf(
		"node %s serves the PVs of provisioner %s no more: pods can use this volume, but it neither grows nor is deleted; %s",
		p.Node.Name(), by, remedy))
}

func (p *PVs) unserved(pv *corev1.PersistentVolume) error {
	return fmt.Errorf("annotation %s is %q, and node %s serves no such PVs", contract.AnnProvisionedBy,
		pv.Annotations[contract.AnnProvisionedBy], p.Node.Name())
}
