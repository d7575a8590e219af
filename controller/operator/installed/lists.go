package installed

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// page is how many objects one answer of the API server has.
const page = 500

// EachPV calls f for each PV, read in pages.
func EachPV(ctx context.Context, from client.Reader, f func(*corev1.PersistentVolume)) error {
	var list corev1.PersistentVolumeList
	return pages(ctx, from, "PVs", &list, func() {
		for i := range list.Items {
			f(&list.Items[i])
		}
	})
}

// EachPod calls f for each pod of the cluster, read in pages.
func EachPod(ctx context.Context, from client.Reader, f func(*corev1.Pod)) error {
	var list corev1.PodList
	return pages(ctx, from, "pods", &list, func() {
		for i := range list.Items {
			f(&list.Items[i])
		}
	})
}

func pages(ctx context.Context, from client.Reader, what string, list client.ObjectList, see func()) error {
	for next := ""; ; {
		if err := from.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return fmt.Errorf("list %s: %w", what, err)
		}
		see()
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// EachInline calls see for each pod with inline volumes of the driver, and their pools.
func (r Reader) EachInline(ctx context.Context, see func(pod *corev1.Pod, pools []string)) error {
	return EachPod(ctx, r.Live, func(pod *corev1.Pod) {
		if used := identity.InlinePools(pod); len(used) > 0 {
			see(pod, used)
		}
	})
}

// EachProvisioned calls see for each PV of the provisioners.
func (r Reader) EachProvisioned(ctx context.Context, see func(*corev1.PersistentVolume)) error {
	return EachPV(ctx, r.Live, func(pv *corev1.PersistentVolume) {
		if identity.Provisioned(pv) {
			see(pv)
		}
	})
}
