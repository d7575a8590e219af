package recovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
)

// pollEvery is the pause between two reads, and askEvery that between two plans of all agents.
const (
	pollEvery = time.Second
	askEvery  = 3 * time.Second
)

// Wait waits until PV and claim of the volumes that were made are Bound. It notes which are not when the
// context ends.
func (r *Recovery) Wait(ctx context.Context, all []*Volume) {
	for {
		waits, failed := 0, map[*Volume]error{}
		for _, it := range all {
			if it.Verdict != recovery.Made || it.Failed != "" || it.Bound {
				continue
			}
			if it.Bound, failed[it] = r.bound(ctx, it); !it.Bound {
				waits++
			}
		}
		if waits == 0 {
			return
		}
		select {
		case <-ctx.Done():
			for _, it := range all {
				if it.Verdict == recovery.Made && it.Failed == "" && !it.Bound {
					it.Failed = fmt.Sprintf("PV %s and its claim are written, and not Bound yet: kubectl -n %s describe pvc %s",
						it.PVName, r.Target(it.Volume), it.Claim)
					if err := failed[it]; err != nil {
						it.Failed += fmt.Sprintf(" (%v)", err)
					}
				}
			}
			return
		case <-time.After(pollEvery):
		}
	}
}

func (r *Recovery) bound(ctx context.Context, it *Volume) (bool, error) {
	pv, claim, err := r.pair(ctx, it)
	return err == nil && recovery.IsBound(it.Volume, recovery.Facts{Driver: it.agent.Driver, PV: pv, Claim: claim}) &&
		claim.Status.Phase == corev1.ClaimBound, err
}

// pair reads PV and claim of a volume. Either is nil if it is gone.
func (r *Recovery) pair(ctx context.Context,
	it *Volume) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim, error) {
	pv, err := live.PV(ctx, r.Client, it.PVName)
	if err != nil {
		return nil, nil, err
	}
	claim, err := live.NamedClaim(ctx, r.Client, r.Target(it.Volume), it.Claim)
	return pv, claim, err
}

// Policies gives the PVs their reclaim policies back, of the volumes that are Bound now or were before.
// ask returns the plans of the agents again: an agent must have recorded the claim before its PV may
// delete the volume. It returns how many PVs still wait for that when the context ends; a later run
// goes on. The operator does the same.
func (r *Recovery) Policies(ctx context.Context, all []*Volume,
	ask func(context.Context) []agents.Planned) (waiting int) {
	for {
		waiting = 0
		var recorded []recovery.Volume
		for _, it := range all {
			if !r.noted(ctx, it) {
				continue
			}
			if recorded == nil {
				recorded = volumesOf(ask(ctx))
			}
			if done, err := r.policy(ctx, it, recorded); err != nil {
				it.Failed = err.Error()
			} else if !done {
				waiting++
			}
		}
		if waiting == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return waiting
		case <-time.After(askEvery):
		}
	}
}

func volumesOf(plans []agents.Planned) []recovery.Volume {
	all := []recovery.Volume{}
	for _, p := range plans {
		all = append(all, p.Volumes...)
	}
	return all
}

// noted reports whether the PV of a volume that is bound has a note of its former policy.
func (r *Recovery) noted(ctx context.Context, it *Volume) bool {
	if it.Failed != "" || !it.Bound && it.Verdict != recovery.There {
		return false
	}
	pv, err := live.PV(ctx, r.Client, it.PVName)
	return err == nil && pv != nil && pv.Annotations[contract.AnnFormerPolicy] != "" &&
		pv.Annotations[contract.AnnGivenUp] == "" &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// policy gives a PV its policy back. done is false if the agent has not recorded the claim yet.
func (r *Recovery) policy(ctx context.Context, it *Volume, recorded []recovery.Volume) (done bool, err error) {
	i := slices.IndexFunc(recorded, func(v recovery.Volume) bool { return v.PoolUUID == it.PoolUUID && v.Name == it.Name })
	pv, claim, err := r.pair(ctx, it)
	if err != nil || i < 0 {
		return false, nil
	}
	due := recovery.PolicyDue(recorded[i], recovery.Facts{Driver: it.agent.Driver, PV: pv, Claim: claim})
	if due == "" {
		return false, nil
	}
	meta := map[string]any{"annotations": map[string]any{contract.AnnFormerPolicy: nil}}
	if !contract.HasFinalizer(pv) {
		meta["finalizers"] = append(slices.Clone(pv.Finalizers), contract.Finalizer) // the PV outlives its volume
	}
	_, err = live.PatchPV(ctx, r.Client, pv, meta, map[string]any{"persistentVolumeReclaimPolicy": due},
		metav1.PatchOptions{})
	switch {
	case err == nil:
		return true, nil
	case live.Permanent(err):
		return false, fmt.Errorf("PV %s keeps the policy Retain: %w", pv.Name, err)
	}
	return false, nil // written meanwhile, by the operator for example
}
