package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
)

// inUse lists the PVs of the provisioners, and the pods with inline volumes of the driver.
func (r *Reconciler) inUse(ctx context.Context) (found []string, err error) {
	if err := r.eachPV(ctx, func(pv *corev1.PersistentVolume) { found = append(found, "PV "+pv.Name) }); err != nil {
		return nil, err
	}
	err = r.eachInline(ctx, func(pod *corev1.Pod, _ []string) { found = append(found, "pod "+pod.Namespace+"/"+pod.Name) })
	return found, err
}

// eachInline calls see for each pod with inline volumes of the driver, and their pools.
func (r *Reconciler) eachInline(ctx context.Context, see func(pod *corev1.Pod, pools []string)) error {
	return claimpools.EachPod(ctx, r.Live, func(pod *corev1.Pod) {
		if used := identity.InlinePools(pod); len(used) > 0 {
			see(pod, used)
		}
	})
}

// eachPV calls see for each PV of the provisioners.
func (r *Reconciler) eachPV(ctx context.Context, see func(*corev1.PersistentVolume)) error {
	return claimpools.EachPV(ctx, r.Live, func(pv *corev1.PersistentVolume) {
		if identity.Provisioned(pv) {
			see(pv)
		}
	})
}

// eachCached calls see for each PV of the provisioners in the cache. It is for answers that destroy
// nothing: anyone who reaches the webhook may ask, and must not make the API server list all PVs.
func (r *Reconciler) eachCached(ctx context.Context, see func(*corev1.PersistentVolume)) error {
	var pvs corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &pvs, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PVs: %w", err)
	}
	for i := range pvs.Items {
		if pv := &pvs.Items[i]; identity.Provisioned(pv) {
			see(pv)
		}
	}
	return nil
}
