package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/simulation/devices"
)

// manage is the scheduler, the garbage collector and the kubelets for raw disks, until the bubble
// ends. The controller-manager of the World does the rest.
func (r *rawDisks) manage() {
	for {
		changed := r.judge.changed()
		time.Sleep(time.Second + r.faults.managerLag())
		pvs := must1(r.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})).Items
		claims := must1(r.god.CoreV1().PersistentVolumeClaims(tenant).List(ctx, metav1.ListOptions{})).Items
		for i := range claims {
			r.schedule(&claims[i], pvs)
		}
		for i := range pvs {
			r.collect(&pvs[i])
			r.pod(&pvs[i])
		}
		select {
		case <-changed:
		case <-time.After(time.Minute): // a pod whose disk was away
		}
	}
}

// schedule gives a claim the first PV that is free.
func (r *rawDisks) schedule(c *corev1.PersistentVolumeClaim, pvs []corev1.PersistentVolume) {
	if ptr.Deref(c.Spec.StorageClassName, "") != rawClass || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil ||
		slices.ContainsFunc(pvs, func(pv corev1.PersistentVolume) bool {
			return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == c.UID
		}) {
		return
	}
	for i := range pvs {
		pv := &pvs[i]
		if pv.Spec.StorageClassName != rawClass || pv.Status.Phase != corev1.VolumeAvailable || pv.Spec.ClaimRef != nil ||
			pv.DeletionTimestamp != nil || r.absent(pv) {
			continue
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
			Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, "pv.kubernetes.io/bound-by-controller", "yes")
		if _, err := r.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
}

// absent reports whether the Node that owns a PV is gone.
func (r *rawDisks) absent(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(pv.OwnerReferences, func(o metav1.OwnerReference) bool {
		node, err := r.god.CoreV1().Nodes().Get(ctx, o.Name, metav1.GetOptions{})
		return o.Kind == "Node" && (apierrors.IsNotFound(err) || err == nil && node.UID != o.UID)
	})
}

// collect deletes a PV whose owner is gone.
func (r *rawDisks) collect(pv *corev1.PersistentVolume) {
	if pv.DeletionTimestamp == nil && r.absent(pv) {
		this := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pv.UID))}
		_ = r.god.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, this) // a failure is tried again
	}
}

// pod starts the pod of a Bound PV, which writes, and ends that of a claim which is gone. A pod
// starts again after a boot, and never with another disk than before: its people would see that.
func (r *rawDisks) pod(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.pvs[pv.UID]
	if v == nil || r.claims[v.claim] == nil {
		return
	}
	c := r.claims[v.claim]
	at := v.node.Place(v.path)
	switch {
	case c.asked || v.idle:
		if v.pod {
			v.pod = false
			r.use(v, false)
		}
	case v.pod && v.boots == v.node.Boots() || pv.Status.Phase != corev1.VolumeBound:
	case at.Disk == nil || c.disk != nil && c.disk != at.Disk:
	default:
		r.first(v, c, at)
		if r.use(v, true) && c.disk == nil {
			from := int64(0)
			if c.late {
				from = at.Bytes / 4 * 3
			}
			v.node.Mark(v.path, devices.Mark{At: from, Bytes: "data of " + c.name, Owner: claimOwner + string(c.uid)})
		}
		c.disk, v.pod, v.boots = at.Disk, true, v.node.Boots()
	}
}

// use has a pod use the device of its PV, or ends that.
func (r *rawDisks) use(v *rawPV, on bool) bool {
	switch {
	case !v.mounted:
		return v.node.Loop(v.path, on)
	case on:
		return v.node.Mount(v.path)
	}
	return v.node.Unmount(v.path)
}
