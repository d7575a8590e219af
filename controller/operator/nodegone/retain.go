package nodegone

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/pvwrite"
)

// retained reports whether no agent deletes the PV's directory, now or at the end of a migration.
func retained(pv *corev1.PersistentVolume) bool {
	return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain &&
		pv.Annotations[contract.AnnPolicy] == ""
}

// noted reports whether retain has nothing to do.
func (s step) noted() bool {
	return retained(s.pv) && (s.loss != identity.GivenUp ||
		identity.PoolMissing(s.pv.Annotations[contract.AnnGivenUp]) == s.home.Missing)
}

// retain sets the PV's reclaim policy to Retain and notes the former one. It removes the annotation
// of a migration, which would restore the former policy. If the Node's annotation gives the PV up,
// it notes the Node's UID: the agent no longer expects the pool, and opens one on a new disk.
func (r *Reconciler) retain(ctx context.Context, s step) error {
	return r.ifGone(ctx, s, func(ctx context.Context, f identity.NodeFacts) error {
		notes := map[string]any{}
		if s.pv.Annotations[contract.AnnPolicy] != "" {
			notes[contract.AnnPolicy] = nil
		}
		if !retained(s.pv) {
			notes[contract.AnnFormerPolicy] = contract.Policy(s.pv)
		}
		if s.loss == identity.GivenUp {
			notes[contract.AnnGivenUp] = f.UID
		}
		return r.patch(ctx, s.pv, map[string]any{"annotations": notes},
			map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain})
	})
}

// givenUp reports whether retain wrote on the PV.
func givenUp(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[contract.AnnFormerPolicy] != "" || pv.Annotations[contract.AnnGivenUp] != ""
}

// restore sets the reclaim policy that retain noted. It does nothing unless the agent of the node
// has bound the volume again, the PV is Bound, and its claim is not being deleted: otherwise the
// policy stays Retain, and an administrator decides about the directory.
func (r *Reconciler) restore(ctx context.Context, cached *corev1.PersistentVolume) error {
	if !givenUp(cached) {
		return nil
	}
	pv, err := live.PV(ctx, r.Live, cached.Name)
	if pv == nil || err != nil {
		return err
	}
	h, ok := identity.HomeOf(pv)
	if !ok || !givenUp(pv) || pv.DeletionTimestamp != nil || pv.Status.Phase != corev1.VolumeBound {
		return nil
	}
	f, err := r.newReader().facts(ctx, pv, h)
	if err != nil {
		return err
	}
	if _, found := identity.NodeGone(f); found.Answer != identity.Foreign || !f.Exists || f.NodeUID != f.UID ||
		f.Missing != "" {
		return nil
	}
	claim, err := r.claimOf(ctx, pv)
	if claim == nil || claim.DeletionTimestamp != nil || err != nil {
		return err
	}
	notes, spec := map[string]any{}, map[string]any{}
	for _, key := range []string{contract.AnnFormerPolicy, contract.AnnGivenUp} {
		if _, ok := pv.Annotations[key]; ok {
			notes[key] = nil
		}
	}
	if former := pv.Annotations[contract.AnnFormerPolicy]; former == string(corev1.PersistentVolumeReclaimDelete) &&
		retained(pv) {
		spec["persistentVolumeReclaimPolicy"] = former
	}
	return r.patch(ctx, pv, map[string]any{"annotations": notes}, spec)
}

// stamp marks a PV whose Node exists as one of this cluster, as its agent does: PVs of earlier
// versions have no mark.
func (r *Reconciler) stamp(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnCluster] != "" {
		return nil
	}
	cluster, err := r.thisCluster(ctx)
	if cluster == "" || err != nil {
		return err
	}
	return r.patch(ctx, pv, map[string]any{"annotations": map[string]any{contract.AnnCluster: cluster}}, nil)
}

// patch changes fields of a PV's metadata and of its spec. It does nothing if the PV is gone, was
// written since it was read, or was read before the change was made.
//
// The watch reports the write, and the next step follows. If a webhook or another program reverts
// the write, the next step is the same write again: patch then waits for a minute, and records an
// event.
func (r *Reconciler) patch(ctx context.Context, pv *corev1.PersistentVolume, meta, spec map[string]any) error {
	_, err := r.wrote.Patch(ctx, r.Live, pv, meta, spec, pvwrite.Again{
		Report: func() {
			r.Events.Warn(ctx, events.PV(pv), topic+" reverted", events.VolumeNodeGone, fmt.Sprintf("the operator wrote %s "+
				"on the PV, and a webhook or another program reverted it; the operator writes it again each minute. Exclude the "+
				"operator's account from the webhook, or stop the program", described(meta, spec)))
		},
		Pause: func(int) time.Duration { return checkInterval },
	})
	return err
}

// described names the fields of a change, for messages.
func described(meta, spec map[string]any) string {
	names := slices.Concat(slices.Collect(maps.Keys(meta)), slices.Collect(maps.Keys(spec)))
	slices.Sort(names)
	return strings.Join(names, " and ")
}
