package installed

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Paged returns a reader of the API server whose lists of kinds that tenants make, and of PVs, read pages
// that are bounded in bytes. A list without a limit has all pages, and is for the operator's own
// namespace.
func Paged(direct client.Reader, api kubernetes.Interface) client.Reader {
	return paged{direct, api}
}

type paged struct {
	client.Reader
	api kubernetes.Interface
}

// List implements client.Reader.
func (p paged) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	request := *o.AsListOptions()
	core := p.api.CoreV1().RESTClient()
	switch l := list.(type) {
	case *corev1.PodList:
		return pagesInto(request, &l.Items, &l.ListMeta, func(m metav1.ListOptions) ([]corev1.Pod, metav1.ListMeta, error) {
			page, err := live.Page[corev1.PodList](ctx, core, "pods", o.Namespace, m)
			return page.Items, page.ListMeta, err
		})
	case *corev1.PersistentVolumeList:
		return pagesInto(request, &l.Items, &l.ListMeta,
			func(m metav1.ListOptions) ([]corev1.PersistentVolume, metav1.ListMeta, error) {
				page, err := live.Page[corev1.PersistentVolumeList](ctx, core, "persistentvolumes", "", m)
				return page.Items, page.ListMeta, err
			})
	case *corev1.PersistentVolumeClaimList:
		return pagesInto(request, &l.Items, &l.ListMeta,
			func(m metav1.ListOptions) ([]corev1.PersistentVolumeClaim, metav1.ListMeta, error) {
				page, err := live.Page[corev1.PersistentVolumeClaimList](ctx, core, "persistentvolumeclaims", o.Namespace, m)
				return page.Items, page.ListMeta, err
			})
	case *corev1.EventList:
		return pagesInto(request, &l.Items, &l.ListMeta, func(m metav1.ListOptions) ([]corev1.Event, metav1.ListMeta, error) {
			page, err := live.Page[corev1.EventList](ctx, core, "events", o.Namespace, m)
			return page.Items, page.ListMeta, err
		})
	}
	return p.Reader.List(ctx, list, opts...)
}

// pagesInto reads the page that the request asks for, or all pages if it has no limit.
func pagesInto[T any](request metav1.ListOptions, items *[]T, meta *metav1.ListMeta,
	read func(metav1.ListOptions) ([]T, metav1.ListMeta, error)) error {
	*items = nil
	for all := request.Limit == 0; ; {
		page, m, err := read(request)
		if err != nil {
			return err
		}
		*items, *meta = append(*items, page...), m
		if request.Continue = m.Continue; !all || request.Continue == "" {
			return nil
		}
	}
}
