package claimpools

import (
	appsv1 "k8s.io/api/apps/v1"
)

// addUnrecorded adds the Deployments that the record lacks: those of an earlier version, or of the
// existing operator. The mount of one that is being deleted is gone, or was not made by the
// operator.
func (r *Reconciler) addUnrecorded(have map[string]*appsv1.Deployment) {
	for name, d := range have {
		if d.DeletionTimestamp == nil {
			r.Record.Holders[name] = r.RecordOf(d)
		}
	}
}
