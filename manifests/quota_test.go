package manifests_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A cluster may admit pods of the critical priority classes only where a ResourceQuota has the
// class in its scope, as GKE does. Every form that is applied alone starts its pods there.
func TestCriticalPodsHaveAQuota(t *testing.T) {
	workloads := 0
	for dir, form := range forms(t) {
		for id, o := range form {
			var pod corev1.PodSpec
			var namespace string
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				pod, namespace = o.Spec.Template.Spec, o.Namespace
			case *appsv1.Deployment:
				pod, namespace = o.Spec.Template.Spec, o.Namespace
			default:
				continue
			}
			workloads++
			classes := []string{pod.PriorityClassName}
			if dir == "operator" { // the agents, and the holders of pools
				classes = append(classes, "system-node-critical")
			}
			for _, class := range classes {
				if strings.HasPrefix(class, "system-") && !quotaFor(form, namespace, class) {
					t.Errorf("%s: no ResourceQuota admits the pods of %s, whose class is %s", dir, id, class)
				}
			}
		}
	}
	if workloads < 20 {
		t.Errorf("%d workloads", workloads)
	}
}

// quotaFor reports whether the form has a quota that admits pods of the class without limiting
// them.
func quotaFor(form set, namespace, class string) bool {
	for _, o := range form {
		quota, ok := o.(*corev1.ResourceQuota)
		if !ok || quota.Namespace != namespace || quota.Spec.ScopeSelector == nil || len(quota.Spec.Hard) != 1 {
			continue
		}
		pods := quota.Spec.Hard[corev1.ResourcePods]
		if pods.Cmp(resource.MustParse("1G")) < 0 {
			continue
		}
		for _, e := range quota.Spec.ScopeSelector.MatchExpressions {
			if e.ScopeName == corev1.ResourceQuotaScopePriorityClass && e.Operator == corev1.ScopeSelectorOpIn && slices.Contains(e.Values, class) {
				return true
			}
		}
	}
	return false
}
