// Package metricsauth has what it takes to serve metrics only to clients with a token: the agents may
// review tokens, and Prometheus gets the token of an account that may read the metrics.
//
//	metricsauth.go  what the resource asks for, and what the agents need for it
//	reader.go       the account
//	secret.go       the Secret with its token
package metricsauth

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// none is the value of the resource's key for metrics that every client may read.
const none = "none"

// Asked reports whether the resource has the metrics served only to clients with a token. A value that
// the API server should have refused may be a misspelt one that asks for that.
func Asked(cr *v1beta1.HostPathProvisioner) bool {
	return cr.Spec.MetricsAuth != "" && cr.Spec.MetricsAuth != none
}

// Require has the agent serve its metrics only to clients with a token. It sets a variable and no flag,
// because an agent of a version without the flag would not start.
func Require(agent *corev1.Container) {
	poolrecord.Set(agent, settings.MetricsAuth, settings.MetricsToken)
}

// Requires reports whether the agent of the pod does so.
func Requires(pod corev1.PodSpec) bool {
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			if v.Name == settings.MetricsAuth && v.Value == settings.MetricsToken {
				return true
			}
		}
	}
	return false
}

// RequiredBy reports whether the template of the agents' DaemonSet asks for tokens, or one of its pods does
// that is not replaced yet. A pod that nothing can end serves no metrics. The pods may contain others than
// the DaemonSet's.
func RequiredBy(ctx context.Context, set *appsv1.DaemonSet, pods []corev1.Pod, agents former.Agents) (bool, error) {
	if Requires(set.Spec.Template.Spec) {
		return true, nil
	}
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, set) || !Requires(pod.Spec) {
			continue
		}
		if stranded, err := agents.Stranded(ctx, pod); err != nil || !stranded {
			return true, err
		}
	}
	return false, nil
}

// reviews are the additional rules of such agents, those of manifests/components/metrics-auth.
var reviews = []rbacv1.PolicyRule{
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
}

// Permit adds these rules to the agents' ClusterRole.
func Permit(role *unstructured.Unstructured) error { return apply.AddRules(role, reviews...) }
