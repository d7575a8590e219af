package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

// Apply writes what is missing of the volumes that are made: for each the claim, then the PV. It notes
// why one failed, and goes on with the next. Killed anywhere, the next run goes on from what is there.
func (r *Recovery) Apply(ctx context.Context, all []*Volume) {
	for _, it := range all {
		if it.Verdict != recovery.Made {
			continue
		}
		if err := ctx.Err(); err != nil {
			it.Failed = fmt.Sprintf("nothing was written for it: %v; run it again", err)
			continue
		}
		if err := r.apply(ctx, it); err != nil {
			it.Failed = err.Error()
		}
	}
}

// apply reads the names of a volume again, and writes if nothing changed since its user saw the plan.
func (r *Recovery) apply(ctx context.Context, it *Volume) error {
	s := &scene{namespaces: map[string]*corev1.Namespace{}}
	var err error
	if s.here, err = live.Cluster(ctx, r.Client); err != nil {
		return err
	}
	pv, err := live.PV(ctx, r.Client, it.PVName)
	if err != nil {
		return err
	}
	if pv != nil {
		s.pvs = append(s.pvs, pv)
	}
	claim, err := live.NamedClaim(ctx, r.Client, r.Target(it.Volume), it.Claim)
	if err != nil {
		return err
	}
	if claim != nil && claim.Spec.VolumeName == "" { // a PV may be made for it meanwhile
		if s, err = r.scene(ctx); err != nil {
			return err
		}
	}
	switch now := r.decide(ctx, s, it); {
	case now.Verdict == recovery.There:
		return nil
	case now != it.Finding:
		return fmt.Errorf("something changed since the plan was made: it is %s now: %s",
			now.Verdict, cmp.Or(now.Why, "see it again"))
	}
	claim, err = r.writeClaim(ctx, s, it, claim)
	switch {
	case err != nil:
		return fmt.Errorf("claim %s/%s: %w", r.Target(it.Volume), it.Claim, err)
	case claim.Spec.VolumeName != it.PVName:
		return fmt.Errorf("claim %s/%s: a webhook or another program changed spec.volumeName to %q",
			claim.Namespace, claim.Name, claim.Spec.VolumeName)
	case !it.PVWrite:
		return nil
	}
	made := it.Objects.PV.DeepCopy()
	made.Spec.ClaimRef.UID = claim.UID // a name alone would let the next tenant of the namespace have it
	_, err = r.Client.CoreV1().PersistentVolumes().Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("PV %s: %w", it.PVName, err)
	}
	return nil
}

// writeClaim writes the claim of a volume if that is due, and returns it. There is no error only if it is
// in the namespace by which the scene was decided: one of its name may have been made since, by another
// tenant, and its claim must not get the PV.
func (r *Recovery) writeClaim(ctx context.Context, s *scene, it *Volume,
	claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	switch it.ClaimWrite {
	case recovery.NameVolume:
		return r.nameVolume(ctx, claim, it.PVName) // it was read before the namespace, and still exists
	case recovery.NoClaimWrite:
		return claim, nil
	}
	target := r.Target(it.Volume)
	claim, err := r.Client.CoreV1().PersistentVolumeClaims(target).Create(ctx, it.Objects.Claim, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	decided := s.namespaces[target]
	now, err := live.NamespaceUID(ctx, r.Client, target)
	switch {
	case err != nil:
		return nil, err
	case decided == nil || now != string(decided.UID):
		return nil, errors.New("the namespace was made again meanwhile, maybe by another tenant: the claim gets no volume")
	}
	return claim, nil
}

// nameVolume has a claim that waits get the PV, unless the claim was written since it was read.
func (r *Recovery) nameVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	pv string) (*corev1.PersistentVolumeClaim, error) {
	if claim == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), "")
	}
	patch, err := live.UnchangedPatch(claim, nil, map[string]any{"volumeName": pv})
	if err != nil {
		return nil, err
	}
	return r.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
}
