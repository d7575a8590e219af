package claimpools

import (
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"

	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// addUnrecorded adds the Deployments that the record lacks: those of an earlier version, or of the
// existing operator. The mount of one that is being deleted is gone, or was not made by the
// operator.
func (r *Reconciler) addUnrecorded(have map[string]*appsv1.Deployment) {
	if r.Recorded == nil {
		r.Recorded = map[string]poolrecord.Holder{}
	}
	for name, d := range have {
		if d.DeletionTimestamp == nil {
			r.Recorded[name] = r.recordOf(d)
		}
	}
}

// recordOf returns the record of the Deployment, or else one of what the Deployment has.
func (r *Reconciler) recordOf(d *appsv1.Deployment) poolrecord.Holder {
	if h, found := r.Recorded[d.Name]; found {
		return h
	}
	h := poolrecord.Holder{Pool: poolOf(d), Node: nodeOf(d), Path: pathOf(d), ClaimUID: claimOf(d)}
	if !poolrecord.IsPath(h.Path) {
		h.Path = ""
	}
	return h
}

// save writes the record if it differs from what was written last. The caller saves before it
// creates or changes an object for it.
func (r *Reconciler) save(ctx context.Context) error {
	if r.Save == nil || maps.Equal(r.Recorded, r.written) {
		return nil
	}
	if err := r.Save(ctx, r.Recorded); err != nil {
		return err
	}
	r.written = maps.Clone(r.Recorded)
	return nil
}
