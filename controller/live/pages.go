package live

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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

// claimByUID returns the claim with that UID, nil if there is none.
func claimByUID(ctx context.Context, client kubernetes.Interface, uid string) (*corev1.PersistentVolumeClaim, error) {
	page := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return nil, Unanswered{Request: "list claims to find UID " + uid, Err: err}
		}
		for i := range list.Items {
			if string(list.Items[i].UID) == uid {
				return &list.Items[i], nil
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil, nil
		}
	}
}
