package installed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// DaemonSetName is the name of the agents' DaemonSet.
const DaemonSetName = "hostpath-provisioner-csi"

// BindingName is the name of the ClusterRoleBinding of the agents, which each installation would
// have for itself.
const BindingName = "hostpath-provisioner-admin-csi"

// YieldInterval is how often the parts of an operator check whether another installation is gone.
const YieldInterval = time.Minute

// Reader reads what is installed.
type Reader struct {
	// Namespace is that of the operator, and of the agents.
	Namespace string
	// Cache has the resources, the DaemonSet and the ClusterRoleBinding of the agents.
	Cache client.Reader
	// Live reads pods from the API server.
	Live client.Reader
}

// Served returns the resource that is served, the oldest. A deleted one counts until it is gone.
func Served(ctx context.Context, from client.Reader) (*v1beta1.HostPathProvisioner, error) {
	var all v1beta1.HostPathProvisionerList
	if err := from.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return &v1beta1.HostPathProvisioner{}, err
	}
	oldest := slices.MinFunc(all.Items, func(a, b v1beta1.HostPathProvisioner) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest, nil
}

// installationPods are the labels of an operator's and of an agent's pods.
var installationPods = []client.MatchingLabels{{"name": "hostpath-provisioner-operator"},
	{"k8s-app": "hostpath-provisioner"}}

// Other returns the namespace of another installation, or "": that of the account which the agents'
// ClusterRoleBinding names, while an operator or an agent runs there. Only administrators write
// that binding; the labels of a tenant's pod prove nothing. Both would write the objects that have
// no namespace, and two agents on one node would serve a claim twice.
func (r Reader) Other(ctx context.Context) (namespace string, err error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("rbac.authorization.k8s.io/v1")
	o.SetKind("ClusterRoleBinding")
	if err = client.IgnoreNotFound(r.Cache.Get(ctx, client.ObjectKey{Name: BindingName}, o)); err != nil {
		return "", fmt.Errorf("read ClusterRoleBinding %s: %w", BindingName, err)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		subject, _ := s.(map[string]any)
		namespace, _, _ := unstructured.NestedString(subject, "namespace")
		if namespace == "" || namespace == r.Namespace {
			continue
		}
		if found, err := r.populated(ctx, namespace); found || err != nil {
			return namespace, err
		}
	}
	return "", nil
}

// populated reports whether the namespace has a pod of an installation.
func (r Reader) populated(ctx context.Context, namespace string) (bool, error) {
	for _, labels := range installationPods {
		var pods corev1.PodList
		if err := r.Live.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
			return false, fmt.Errorf("list the pods of another installation in namespace %s: %w", namespace, err)
		}
		for _, pod := range pods.Items {
			if !contract.PodEnded(&pod) {
				return true, nil
			}
		}
	}
	return false, nil
}

// DaemonSet returns the agents' DaemonSet, nil if there is none. It is read from the cache whose
// changes begin a pass: one of typed objects may lag behind it for hours.
func (r Reader) DaemonSet(ctx context.Context) (*appsv1.DaemonSet, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	err := r.Cache.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: DaemonSetName}, o)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	ds := &appsv1.DaemonSet{}
	return ds, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, ds)
}

// Pods reads the pods in the operator's namespace from the API server.
func (r Reader) Pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list the agents: %w", err)
	}
	return pods.Items, nil
}
