package cluster

import (
	"context"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Reader reads objects with the rights of a user. Its methods return no errors: what could not be
// read is unknown, with the reason.
type Reader struct {
	Client kubernetes.Interface
	// Clock has the API server's time; nil for unknown.
	Clock *Clock
}

// Nodes lists the nodes.
func (r Reader) Nodes(ctx context.Context) List[corev1.Node] {
	return each("nodes", func(f func(*corev1.Node)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.CoreV1().Nodes().List(ctx, o)
		}, f)
	})
}

// CSINodes lists which drivers the kubelets have registered.
func (r Reader) CSINodes(ctx context.Context) List[storagev1.CSINode] {
	return each("csinodes", func(f func(*storagev1.CSINode)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.StorageV1().CSINodes().List(ctx, o)
		}, f)
	})
}

// HasDriver reports whether a kubelet has registered a driver. It has none if there is no CSINode.
func HasDriver(c *storagev1.CSINode, driver string) bool {
	return c != nil && slices.ContainsFunc(c.Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// Drivers lists the CSI drivers.
func (r Reader) Drivers(ctx context.Context) List[storagev1.CSIDriver] {
	return each("csidrivers", func(f func(*storagev1.CSIDriver)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.StorageV1().CSIDrivers().List(ctx, o)
		}, f)
	})
}

// Classes lists the storage classes.
func (r Reader) Classes(ctx context.Context) List[storagev1.StorageClass] {
	return each("storageclasses", func(f func(*storagev1.StorageClass)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.StorageV1().StorageClasses().List(ctx, o)
		}, f)
	})
}

// Capacities lists what the drivers have published of their nodes, in all namespaces. Objects for
// nodes that an autoscaler may add are left out: no node has that space.
func (r Reader) Capacities(ctx context.Context) List[storagev1.CSIStorageCapacity] {
	return each("csistoragecapacities", func(f func(*storagev1.CSIStorageCapacity)) error {
		return live.EachCapacity(ctx, r.Client, metav1.NamespaceAll, func(c *storagev1.CSIStorageCapacity) bool {
			if !contract.OfTemplateNode(c) {
				f(c)
			}
			return true
		})
	})
}

// PVs lists the PVs.
func (r Reader) PVs(ctx context.Context) List[corev1.PersistentVolume] {
	return each("persistentvolumes", func(f func(*corev1.PersistentVolume)) error {
		return live.EachPV(ctx, r.Client, func(pv *corev1.PersistentVolume) bool {
			f(pv)
			return true
		})
	})
}

// Claims lists the claims of a namespace, or of all if it is "".
func (r Reader) Claims(ctx context.Context, namespace string) List[corev1.PersistentVolumeClaim] {
	return each("persistentvolumeclaims", func(f func(*corev1.PersistentVolumeClaim)) error {
		return live.EachClaimIn(ctx, r.Client, namespace, func(c *corev1.PersistentVolumeClaim) bool {
			f(c)
			return true
		})
	})
}

// Pods lists the pods of a namespace, or of all if it is "", that the selector selects.
func (r Reader) Pods(ctx context.Context, namespace, selector string) List[corev1.Pod] {
	return each("pods", func(f func(*corev1.Pod)) error {
		return pages(ctx, metav1.ListOptions{LabelSelector: selector},
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.Client.CoreV1().Pods(namespace).List(ctx, o)
			}, f)
	})
}

// DaemonSets lists the agents' DaemonSets in all namespaces. One whose pods have no directory of their node
// is none: a tenant may give his the labels.
func (r Reader) DaemonSets(ctx context.Context) List[appsv1.DaemonSet] {
	all := each("daemonsets", func(f func(*appsv1.DaemonSet)) error {
		return pages(ctx, metav1.ListOptions{LabelSelector: agentSelector},
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.Client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, o)
			}, f)
	})
	all.Items = slices.DeleteFunc(all.Items, func(d appsv1.DaemonSet) bool { return !ofNode(&d.Spec.Template.Spec) })
	return all
}

// Resources lists the resources of the operator. It is empty if the cluster has no such kind.
func (r Reader) Resources(ctx context.Context) (all List[hpp.HostPathProvisioner]) {
	data, err := r.Client.CoreV1().RESTClient().Get().AbsPath("/apis", hpp.GroupVersion().Group,
		hpp.GroupVersion().Version, "hostpathprovisioners").DoRaw(ctx)
	var list hpp.HostPathProvisionerList
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil && !noKind(err) {
		return List[hpp.HostPathProvisioner]{Unknown: unknown("list", "hostpathprovisioners", err)}
	}
	all.Items = list.Items
	return all
}

// Claim reads a claim.
func (r Reader) Claim(ctx context.Context, namespace, name string) Object[corev1.PersistentVolumeClaim] {
	return one("persistentvolumeclaims", name, func() (*corev1.PersistentVolumeClaim, error) {
		return r.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// Class reads a storage class. It is absent if the name is "".
func (r Reader) Class(ctx context.Context, name string) Object[storagev1.StorageClass] {
	return one("storageclasses", name, func() (*storagev1.StorageClass, error) {
		return r.Client.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	})
}

// PV reads a PV. It is absent if the name is "".
func (r Reader) PV(ctx context.Context, name string) Object[corev1.PersistentVolume] {
	return one("persistentvolumes", name, func() (*corev1.PersistentVolume, error) {
		return r.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	})
}

// MayExec returns "" if the user may run commands in pods of the namespace, and the reason
// otherwise.
func (r Reader) MayExec(ctx context.Context, namespace string) string {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods",
			Subresource: "exec"}}}
	answer, err := r.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return unknown("create", "selfsubjectaccessreviews", err)
	case !answer.Status.Allowed:
		return "may not run commands in the agents' pods (create pods/exec in the namespace " + namespace + ")"
	}
	return ""
}

// one reads an object with get, which has a name.
func one[T any](resource, name string, get func() (*T, error)) Object[T] {
	if name == "" {
		return Object[T]{}
	}
	it, err := get()
	switch {
	case err == nil:
		return Object[T]{It: it}
	case absent(err):
		return Object[T]{}
	}
	return Object[T]{Unknown: unknown("get", resource, err)}
}

// each collects what read passes to its function. Each cluster has the kinds that are read so: without
// one, the server is none of Kubernetes.
func each[T any](resource string, read func(func(*T)) error) (all List[T]) {
	err := read(func(item *T) { all.Items = append(all.Items, *item) })
	if err != nil {
		return List[T]{Unknown: unknown("list", resource, err)}
	}
	return all
}

// pages lists page by page.
func pages[T any](ctx context.Context, o metav1.ListOptions, list pager.ListPageFunc, f func(*T)) error {
	return pager.New(list).EachListItem(ctx, o, func(o runtime.Object) error {
		f(any(o).(*T))
		return nil
	})
}
