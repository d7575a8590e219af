package live

import (
	"context"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	// pageItems is the largest number of objects that one request lists.
	pageItems = 500
	// pageBytes bounds the encoded size of a page of more than one object. Decoded, a page takes up
	// to about ten times as much: any user can create claims with 256 KiB of annotations each, or
	// with many short labels. etcd accepts objects of up to 1.5 MiB (--max-request-bytes).
	pageBytes = 4 << 20
)

// EachPV calls f for every PV of the cluster until f returns false. An error is an Unanswered.
func EachPV(ctx context.Context, client kubernetes.Interface, f func(*corev1.PersistentVolume) bool) error {
	_, err := ListPVs(ctx, client, "", f)
	return err
}

// ListPVs is EachPV for the PVs that the label selector selects. It returns the
// resourceVersion of the list, from which a watch can start.
func ListPVs(ctx context.Context, client kubernetes.Interface, selector string,
	f func(*corev1.PersistentVolume) bool) (version string, err error) {
	return eachPage(ctx, client.CoreV1().RESTClient(), "persistentvolumes", metav1.NamespaceAll,
		metav1.ListOptions{LabelSelector: selector},
		func(page *corev1.PersistentVolumeList) bool {
			return eachItem(page.Items, f)
		})
}

// EachClaim calls f for every claim until f returns false. The error is an Unanswered.
func EachClaim(ctx context.Context, client kubernetes.Interface, f func(*corev1.PersistentVolumeClaim) bool) error {
	_, err := ListClaims(ctx, client, f)
	return err
}

// ListClaims is EachClaim, and returns the resourceVersion of the list, to start a watch from.
func ListClaims(ctx context.Context, client kubernetes.Interface,
	f func(*corev1.PersistentVolumeClaim) bool) (version string, err error) {
	return listClaims(ctx, client, metav1.NamespaceAll, f)
}

// EachClaimIn is EachClaim for the claims of one namespace.
func EachClaimIn(ctx context.Context, client kubernetes.Interface, namespace string,
	f func(*corev1.PersistentVolumeClaim) bool) error {
	_, err := listClaims(ctx, client, namespace, f)
	return err
}

func listClaims(ctx context.Context, client kubernetes.Interface, namespace string,
	f func(*corev1.PersistentVolumeClaim) bool) (version string, err error) {
	return eachPage(ctx, client.CoreV1().RESTClient(), "persistentvolumeclaims", namespace, metav1.ListOptions{},
		func(page *corev1.PersistentVolumeClaimList) bool {
			return eachItem(page.Items, f)
		})
}

// EachPod calls f for every pod of the namespace, or of all namespaces, that the field selector
// selects, until f returns false. An error is an Unanswered.
func EachPod(ctx context.Context, client kubernetes.Interface, namespace string, which fields.Selector,
	f func(*corev1.Pod) bool) error {
	_, err := ListPods(ctx, client, namespace, which, f)
	return err
}

// ListPods is EachPod, and returns the resourceVersion of the list, to start a watch from.
func ListPods(ctx context.Context, client kubernetes.Interface, namespace string, which fields.Selector,
	f func(*corev1.Pod) bool) (version string, err error) {
	return eachPage(ctx, client.CoreV1().RESTClient(), "pods", namespace,
		metav1.ListOptions{FieldSelector: which.String()},
		func(page *corev1.PodList) bool { return eachItem(page.Items, f) })
}

// ListDeployments is ListPods for the Deployments of all namespaces.
func ListDeployments(ctx context.Context, client kubernetes.Interface, which fields.Selector,
	f func(*appsv1.Deployment) bool) (version string, err error) {
	return eachPage(ctx, client.AppsV1().RESTClient(), "deployments", metav1.NamespaceAll,
		metav1.ListOptions{FieldSelector: which.String()},
		func(page *appsv1.DeploymentList) bool { return eachItem(page.Items, f) })
}

func eachItem[T any](items []T, f func(*T) bool) bool {
	for i := range items {
		if !f(&items[i]) {
			return false
		}
	}
	return true
}

// list is a pointer to the type L of a list.
type list[L any] interface {
	*L
	runtime.Object
	metav1.ListInterface
}

// eachPage lists objects of the client's API, of one namespace or of all, and calls f for each page,
// until f returns false. A page has at most pageItems objects and pageBytes bytes, but at least one
// object. It returns the resourceVersion of the list. An error is an Unanswered; it matches
// apierrors.IsResourceExpired if the list took longer than the API server keeps its version.
//
// The requests name no resourceVersion: with "0", which informers use, the API server answers
// from its cache and ignores the limit.
func eachPage[L any, P list[L]](ctx context.Context, client rest.Interface, resource, namespace string,
	o metav1.ListOptions, f func(P) bool) (version string, err error) {
	o.Limit = pageItems
	for {
		page := P(new(L))
		size, err := readPage(ctx, client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource), o, page)
		switch {
		case err != nil:
			return "", Unanswered{Request: "list " + resource, Err: err}
		case size > pageBytes && o.Limit > 1:
			o.Limit = max(1, o.Limit/4)
			continue
		}
		if o.Continue = page.GetContinue(); !f(page) || o.Continue == "" {
			return page.GetResourceVersion(), nil
		}
		if size < pageBytes/4 {
			o.Limit = min(pageItems, 2*o.Limit)
		}
	}
}

// Page lists objects of the client's API, of one namespace or of all, from o.Continue on: at most o.Limit
// and pageItems objects and pageBytes bytes, but at least one object. The error is that of the API server.
func Page[L any, P list[L]](ctx context.Context, client rest.Interface, resource, namespace string,
	o metav1.ListOptions) (P, error) {
	if o.Limit <= 0 || o.Limit > pageItems {
		o.Limit = pageItems
	}
	for {
		page := P(new(L))
		size, err := readPage(ctx, client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource), o, page)
		if err != nil || size <= pageBytes || o.Limit <= 1 {
			return page, err
		}
		o.Limit = max(1, o.Limit/4)
	}
}

// readPage decodes the answer to one list request into page. If the answer has more than
// pageBytes and may have more than one object, readPage reads no more of it, decodes nothing,
// and returns more than pageBytes. The typed clients cannot bound what they read.
func readPage(ctx context.Context, request *rest.Request, o metav1.ListOptions,
	page runtime.Object) (size int, err error) {
	body, err := request.VersionedParams(&o, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }() // it was only read
	var from io.Reader = body
	if o.Limit > 1 {
		from = io.LimitReader(body, pageBytes+1)
	}
	data, err := io.ReadAll(from)
	if err != nil || len(data) > pageBytes && o.Limit > 1 {
		return len(data), err
	}
	// The decoder recognizes protobuf and JSON.
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, page); err != nil {
		return 0, fmt.Errorf("decode: %w", err)
	}
	return len(data), nil
}

// EachCapacity calls f for every CSIStorageCapacity of the namespace until f returns false. It
// first reads a short page, because few are enough for most callers. An error is an Unanswered.
func EachCapacity(ctx context.Context, client kubernetes.Interface, namespace string,
	f func(*storagev1.CSIStorageCapacity) bool) error {
	page := metav1.ListOptions{Limit: pageItems / 10}
	for {
		list, err := client.StorageV1().CSIStorageCapacities(namespace).List(ctx, page)
		if err != nil {
			return Unanswered{Request: "list capacity objects", Err: err}
		}
		if page.Continue = list.Continue; !eachItem(list.Items, f) || page.Continue == "" {
			return nil
		}
		page.Limit = pageItems
	}
}

// claimByUID returns the claim with that UID, nil if there is none.
func claimByUID(ctx context.Context, client kubernetes.Interface,
	uid string) (found *corev1.PersistentVolumeClaim, err error) {
	err = EachClaim(ctx, client, func(claim *corev1.PersistentVolumeClaim) bool {
		if string(claim.UID) == uid {
			found = claim
		}
		return found == nil
	})
	return found, err
}
