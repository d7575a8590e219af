package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// yieldInterval is how often an operator checks whether the other installation is gone.
const yieldInterval = time.Minute

// bindingName is the name of the ClusterRoleBinding of the agents, which each installation would
// have for itself.
const bindingName = "hostpath-provisioner-admin-csi"

// installationPods are the labels of an operator's and of an agent's pods.
var installationPods = []client.MatchingLabels{{"name": "hostpath-provisioner-operator"},
	{"k8s-app": "hostpath-provisioner"}}

// other returns the namespace of another installation, or "": that of the account which the agents'
// ClusterRoleBinding names, while an operator or an agent runs there. Only administrators write
// that binding; the labels of a tenant's pod prove nothing. Both would write the objects that have
// no namespace, and two agents on one node would serve a claim twice.
func (r *Reconciler) other(ctx context.Context) (namespace string, err error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("rbac.authorization.k8s.io/v1")
	o.SetKind("ClusterRoleBinding")
	if err = client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Name: bindingName}, o)); err != nil {
		return "", fmt.Errorf("read ClusterRoleBinding %s: %w", bindingName, err)
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
func (r *Reconciler) populated(ctx context.Context, namespace string) (bool, error) {
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

// yieldTo leaves the resource, and its status, to the operator in the other namespace. It returns
// the error if it is not known whether there is one.
func (r *Reconciler) yieldTo(namespace string, cr *v1beta1.HostPathProvisioner, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	message := fmt.Sprintf("the operator in namespace %s does nothing, because namespace %s has another "+
		"installation, whose account ClusterRoleBinding %s names: remove one of the two", r.Namespace, namespace, bindingName)
	klog.InfoS("Another installation serves this cluster", "reason", message)
	r.Events.Eventf(cr, nil, corev1.EventTypeWarning, "AnotherInstallation", "Reconcile", "%s", message)
	return reconcile.Result{RequeueAfter: yieldInterval}, nil
}
