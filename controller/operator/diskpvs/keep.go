package diskpvs

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/pvwrite"
)

// longest is the longest pause before a write that another program reverted is repeated.
const longest = time.Hour

// keep removes the Node from the owners of a PV, whom the garbage collector would take the PV with,
// and records its UID in the same patch: PVs of local-pv-provisioner record it nowhere else. It marks
// the PV as one of this cluster if the Node with that UID exists; node is the one that has the name,
// or nil.
//
// wait is how long the patch has to wait because another program reverted the last one, 0 if it does
// not. keep writes nothing to a PV that is being deleted.
func (r *Reconciler) keep(ctx context.Context, pv *corev1.PersistentVolume,
	node *metav1.PartialObjectMetadata) (wait time.Duration, err error) {
	if pv.DeletionTimestamp != nil {
		return 0, nil
	}
	meta, notes, uid := map[string]any{}, map[string]any{}, identity.DiskNodeUID(pv)
	if identity.DiskOwner(pv) != "" {
		meta["ownerReferences"] = slices.DeleteFunc(slices.Clone(pv.OwnerReferences),
			func(o metav1.OwnerReference) bool { return o.Kind == "Node" })
		notes[contract.AnnNodeUID] = uid
	}
	if node != nil && uid != "" && string(node.UID) == uid {
		cluster, err := r.thisCluster(ctx)
		if err != nil {
			return 0, err
		}
		if cluster != "" && pv.Annotations[contract.AnnCluster] != cluster {
			notes[contract.AnnCluster] = cluster
		}
	}
	if len(notes) == 0 {
		return 0, nil
	}
	meta["annotations"] = notes
	return r.wrote.Patch(ctx, r.Live, pv, meta, nil, pvwrite.Again{
		Report: func() {
			r.Events.Warn(ctx, events.PV(pv), "reverted", events.DeviceError,
				fmt.Sprintf("the Node owned the PV, or the PV had no mark of this cluster; the operator corrected "+
					"that, and a webhook or another program reverted it. Kubernetes deletes a PV that a Node owns with the "+
					"Node object: stop the program that writes %s, such as local-pv-provisioner", pv.Name))
		},
		Pause: func(n int) time.Duration { return min(checkInterval<<min(n, 10), longest) },
	})
}

// thisCluster returns the UID of the cluster, "" if it may not be read.
func (r *Reconciler) thisCluster(ctx context.Context) (string, error) {
	var err error
	if r.cluster == "" {
		r.cluster, err = live.Cluster(ctx, r.Live)
	}
	return r.cluster, err
}
