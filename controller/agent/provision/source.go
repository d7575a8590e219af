package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// origin is the volume that is copied for a claim.
type origin struct {
	pool   *volume.Pool
	source record.Source
}

// originOf returns what is copied for the claim. Once the copy has begun, that is what its job or its
// record names: the claim that was the source may be gone. Otherwise it reads the source's claim from the
// API server, and checks what the standard provisioner checks. The caller has checked the claim itself.
func (c *Controller) originOf(ctx context.Context, at place, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) (origin, *refusal) {
	if job, ok := at.pool.CloneJob(at.spec.Name); ok && !ended(job) && job.Spec.Owner.UID == string(claim.UID) {
		return origin{job.Spec.From, *job.Spec.Source}, nil
	}
	if r, ok := at.pool.Cached(at.spec.Name); at.made && ok && r.Source != nil && r.Owner.UID == string(claim.UID) {
		return origin{at.pool, *r.Source}, nil
	}
	name, _ := contract.CopiedClaim(claim)
	from, err := live.NamedClaim(ctx, c.Client, name.Namespace, name.Name)
	switch {
	case err != nil:
		return origin{}, sourceRefused("the claim %q, whose volume is to be copied for this one, cannot be read: %v", name.Name, err)
	case from == nil:
		return origin{}, sourceRefused("the claim %q, whose volume is to be copied for this one, does not exist", name.Name)
	}
	if r := checkSourceClaim(from, claim); r != nil {
		return origin{}, r
	}
	pv := c.PVs.Saved(from.Spec.VolumeName)
	switch {
	case pv == nil || contract.ClaimUID(pv) != string(from.UID) || pv.Status.Phase != corev1.VolumeBound:
		return origin{}, sourceRefused("the PV %q of the claim %q, whose volume is to be copied for this one, is not bound to it on "+
			"node %s", from.Spec.VolumeName, name.Name, c.Info.Name())
	case pv.Spec.CSI == nil || pv.Spec.CSI.Driver != sc.Provisioner:
		return origin{}, sourceRefused("%s", claims.NotOfDriver(name.Name, pv, sc.Provisioner))
	}
	pool, v, err := c.PVs.VolumeOf(pv)
	switch {
	case err != nil:
	case v.PVUID != "" && v.PVUID != string(pv.UID):
		err = errors.New("its record is of another PV of that name, and follows once the PV was checked")
	case v.Owner.UID != string(from.UID):
		err = fmt.Errorf("its record is of %v, and follows once the PV was checked", v.Owner)
	}
	if err != nil {
		return origin{}, sourceRefused("node %s cannot copy the volume of the claim %q: %v", c.Info.Name(), name.Name, err)
	}
	return origin{pool, record.SourceOf(pool.ID(), v.Record)}, nil
}

// checkSourceClaim returns why the volume of a claim may not be copied for another one.
func checkSourceClaim(from, claim *corev1.PersistentVolumeClaim) *refusal {
	mode := func(c *corev1.PersistentVolumeClaim) corev1.PersistentVolumeMode {
		return ptr.Deref(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
	switch asked, has := contract.Bytes(claim), contract.Bytes(from); {
	case from.DeletionTimestamp != nil:
		return sourceRefused("the claim %q, whose volume is to be copied for this one, is being deleted", from.Name)
	case from.Status.Phase != corev1.ClaimBound:
		return sourceRefused("%s", claims.NotBound(from))
	case contract.Of(from) == "":
		return sourceRefused("the claim %q, whose volume is to be copied for this one, has no class", from.Name)
	case mode(from) != mode(claim):
		return sourceRefused("the claim %q has volumeMode %s, and this one %s: a copy has that of its source", from.Name,
			mode(from), mode(claim))
	case asked < has:
		return sourceRefused("%d bytes requested, and the claim %q, whose volume is to be copied, requests %d: a copy is at "+
			"least as large as its source; create this claim again with that size", asked, from.Name, has)
	}
	return nil
}

// sourceRefused is the refusal of a copy because of its source, which may change.
func sourceRefused(format string, a ...any) *refusal {
	return &refusal{reason: refusedSource, temporary: true, message: fmt.Sprintf(format, a...)}
}

// refusalOfCopy returns why the claim's volume cannot be made as a copy in that place.
func (c *Controller) refusalOfCopy(ctx context.Context, at place, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) *refusal {
	if !c.allows(sc) {
		return sourceRefused("node %s has the volume that is to be copied for this claim, and class %q does not allow that "+
			"node (allowedTopologies): a copy is made on the node of its source; use another class", c.Info.Name(), sc.Name)
	}
	_, r := c.originOf(ctx, at, claim, sc)
	return r
}

// allows reports whether the class may have volumes on this node. The scheduler has checked that for the
// node that it chose, and for a class that binds at once nothing else does.
func (c *Controller) allows(sc *storagev1.StorageClass) bool {
	if len(sc.AllowedTopologies) == 0 {
		return true
	}
	has := func(e corev1.TopologySelectorLabelRequirement) bool {
		value, ok := c.Info.Labels()[e.Key]
		if e.Key == contract.TopologyNode {
			value, ok = c.Info.Name(), true
		}
		return ok && slices.Contains(e.Values, value)
	}
	return slices.ContainsFunc(sc.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions,
			func(e corev1.TopologySelectorLabelRequirement) bool { return !has(e) })
	})
}

// refusalForCopy returns the refusal for an error of Clone.
func (c *Controller) refusalForCopy(at place, claim *corev1.PersistentVolumeClaim, err error) *refusal {
	name, _ := contract.CopiedClaim(claim)
	switch {
	case errors.Is(err, volume.ErrCloning):
		return &refusal{reason: refusedSource, temporary: true, silent: true, message: err.Error()}
	case errors.Is(err, volume.ErrYielded):
		r := sourceRefused("node %s began to copy the volume of the claim %q %d times, and each time a pod began to use it "+
			"meanwhile: the copy starts again once no pod uses it; to copy it in use, the class needs parameter %s: fuzzy",
			c.Info.Name(), name.Name, c.copies.yielded(claim.UID), contract.ConsistencyParameter)
		r.silent = c.copies.yields(claim.UID) < loudYields
		return r
	case errors.Is(err, volume.ErrUnshared):
		return sourceRefused("node %s cannot copy the volume of the claim %q to pool %s: %v (class parameter %s: allowed)",
			c.Info.Name(), name.Name, at.pool.Name(), err, contract.CopyParameter)
	case errors.Is(err, volume.ErrSource), errors.Is(err, volume.ErrInvalid):
		return sourceRefused("node %s cannot copy the volume of the claim %q: %v", c.Info.Name(), name.Name, err)
	}
	return c.refusalFor(at.pool, err)
}
