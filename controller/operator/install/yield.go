package install

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// yieldTo leaves the resource, and its status, to the operator in the other namespace. It returns
// the error if it is not known whether there is one.
func (r *Reconciler) yieldTo(namespace string, cr *v1beta1.HostPathProvisioner, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	message := fmt.Sprintf("the operator in namespace %s does nothing, because namespace %s has another "+
		"installation, whose account ClusterRoleBinding %s names: remove one of the two", r.Namespace, namespace,
		installed.BindingName)
	klog.InfoS("Another installation serves this cluster", "reason", message)
	r.Events.Eventf(cr, nil, corev1.EventTypeWarning, events.AnotherInstallation, "Reconcile", "%s", message)
	return reconcile.Result{RequeueAfter: installed.YieldInterval}, nil
}
