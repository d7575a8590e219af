package live

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// EachPV calls f for every PV of the cluster until f returns false. An error is an
// Unanswered.
func EachPV(ctx context.Context, client kubernetes.Interface, f func(*corev1.PersistentVolume) bool) error {
	page := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.CoreV1().PersistentVolumes().List(ctx, page)
		if err != nil {
			return Unanswered{Request: "list PVs", Err: err}
		}
		for i := range list.Items {
			if !f(&list.Items[i]) {
				return nil
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
	}
}

// EachClaim calls f for every claim of the cluster until f returns false. The error
// is an Unanswered.
func EachClaim(ctx context.Context, client kubernetes.Interface, f func(*corev1.PersistentVolumeClaim) bool) error {
	page := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return Unanswered{Request: "list claims", Err: err}
		}
		for i := range list.Items {
			if !f(&list.Items[i]) {
				return nil
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
	}
}

// EachCapacity calls f for every CSIStorageCapacity of the namespace until f returns
// false. It first reads a short page, because few are enough for most callers. An error is
// an Unanswered.
func EachCapacity(ctx context.Context, client kubernetes.Interface, namespace string, f func(*storagev1.CSIStorageCapacity) bool) error {
	page := metav1.ListOptions{Limit: pageSize / 10}
	for {
		list, err := client.StorageV1().CSIStorageCapacities(namespace).List(ctx, page)
		if err != nil {
			return Unanswered{Request: "list capacity objects", Err: err}
		}
		for i := range list.Items {
			if !f(&list.Items[i]) {
				return nil
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
		page.Limit = pageSize
	}
}

// claimByUID returns the claim with that UID, nil if there is none.
func claimByUID(ctx context.Context, client kubernetes.Interface, uid string) (found *corev1.PersistentVolumeClaim, err error) {
	err = EachClaim(ctx, client, func(claim *corev1.PersistentVolumeClaim) bool {
		if string(claim.UID) == uid {
			found = claim
		}
		return found == nil
	})
	return found, err
}
