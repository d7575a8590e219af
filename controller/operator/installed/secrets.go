package installed

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OperatorName is the name of the operator's Deployment.
const OperatorName = "hostpath-provisioner-operator"

// PullSecrets returns those of the operator's Deployment, for the agents, holders and Jobs, which have its
// image: none if there is no Deployment. Its pod has others, which OpenShift adds and changes.
func (r Reader) PullSecrets(ctx context.Context) ([]corev1.LocalObjectReference, error) {
	o := &unstructured.Unstructured{} // as all that is applied: one cache for both
	o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	err := r.Cache.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: OperatorName}, o)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Deployment %s: %w", OperatorName, err)
	}
	var d appsv1.Deployment
	if err != nil {
		return nil, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
		return nil, fmt.Errorf("read Deployment %s: %w", OperatorName, err)
	}
	return d.Spec.Template.Spec.ImagePullSecrets, nil
}
