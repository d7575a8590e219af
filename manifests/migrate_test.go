package manifests_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// The overlay is both-modes with a switch, which is set such that applying it changes nothing.
func TestMigrateIsBothModes(t *testing.T) {
	const both, migrate = "examples/both-modes", "examples/migrate"
	got, want := one[*appsv1.DaemonSet](t, migrate), one[*appsv1.DaemonSet](t, both)
	c := &got.Spec.Template.Spec.Containers[0]
	switches := map[string]string{}
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
		if strings.HasPrefix(e.Name, "MIGRATE_") {
			switches[e.Name] = e.Value
			return true
		}
		return false
	})
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("without %v it is %+v, want %+v", switches, got.Spec.Template.Spec, want.Spec.Template.Spec)
	}
	if len(switches) != 2 || switches["MIGRATE_TO_CSI"] != "plan" || switches["MIGRATE_USED"] != "false" {
		t.Errorf("it is set to %v", switches)
	}
}

// What it adds to both-modes may be done by nobody else, and nothing of it twice.
func TestMigrateRules(t *testing.T) {
	const at = "examples/migrate/rbac.yaml"
	role, binding := one[*rbacv1.ClusterRole](t, at), one[*rbacv1.ClusterRoleBinding](t, at)
	wantRules(t, at, role.Rules, map[string]string{
		"/pods":                     "list",
		"/persistentvolumeclaims":   "patch",
		"storage.k8s.io/csidrivers": "get",
		"storage.k8s.io/csinodes":   "get",
	})
	if binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != role.Name ||
		!slices.Equal(binding.Subjects, one[*rbacv1.ClusterRoleBinding](t, "csi").Subjects) {
		t.Errorf("binding %+v", binding)
	}
}

// It adds one verb for the agents of both forms, and nothing else.
func TestPopulatorsRules(t *testing.T) {
	const at = "examples/populators/rbac.yaml"
	role, binding := one[*rbacv1.ClusterRole](t, at), one[*rbacv1.ClusterRoleBinding](t, at)
	wantRules(t, at, role.Rules, map[string]string{"/pods": "list"})
	want := slices.Concat(one[*rbacv1.ClusterRoleBinding](t, "legacy").Subjects, one[*rbacv1.ClusterRoleBinding](t, "csi").Subjects)
	if binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != role.Name || !slices.Equal(binding.Subjects, want) {
		t.Errorf("binding %+v", binding)
	}
}
