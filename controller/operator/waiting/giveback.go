package waiting

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// giveBack removes the scheduler's choice of a node that was deleted since. node is the Node of
// that name, nil if there is none. It reports whether the claim waits for that node no longer: it
// may have been given back or bound since. It does nothing if node may be chosen.
func (r *Reconciler) giveBack(ctx context.Context, claim *corev1.PersistentVolumeClaim, p place,
	node *corev1.Node) (bool, error) {
	now, err := live.Claim(ctx, r.Live, record.Owner{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)})
	if now == nil || now.Spec.VolumeName != "" || contract.Bounded(now.Annotations[contract.AnnSelectedNode]) != p.node {
		return err == nil, err
	}
	why := "does not exist any more"
	if node != nil {
		if !chosenBefore(now, node.CreationTimestamp.Time) {
			return false, nil
		}
		why = "was deleted, and another node has its name"
	}
	err = nodechoice.GiveBack(ctx, r.Live, r.Events, now, why)
	return err == nil, err
}

// chosenBefore reports whether the node of the claim was chosen before that time. The annotation
// has no UID of the node, so the time at which a client last wrote the annotation decides. Without
// one chosenBefore returns false.
func chosenBefore(claim *corev1.PersistentVolumeClaim, at time.Time) bool {
	found := false
	for _, entry := range claim.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Annotations["f:"+contract.AnnSelectedNode]; !ok {
			continue
		}
		if entry.Time == nil || !entry.Time.Time.Before(at) {
			return false
		}
		found = true
	}
	return found
}
