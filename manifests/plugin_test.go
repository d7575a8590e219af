package manifests_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// controller/plugin compares these roles with what the commands ask for.
func TestPluginRoles(t *testing.T) {
	roles := map[string]*rbacv1.ClusterRole{}
	for _, r := range all[*rbacv1.ClusterRole](t, "plugin") {
		roles[r.Name] = r
	}
	if len(roles) != 2 || roles["kubectl-hpp-view"] == nil || roles["kubectl-hpp-admin"] == nil {
		t.Fatalf("roles %v, want view and admin", roles)
	}
	for _, r := range roles["kubectl-hpp-view"].Rules {
		for _, verb := range r.Verbs {
			review := verb == "create" && len(r.Resources) == 1 && strings.HasSuffix(r.Resources[0], "subjectaccessreviews")
			if verb != "get" && verb != "list" && !review {
				t.Errorf("who looks may %s %v", verb, r.Resources)
			}
		}
		if slices.ContainsFunc(r.Resources, func(resource string) bool { return strings.Contains(resource, "/") }) {
			t.Errorf("who looks may reach %v", r.Resources)
		}
	}
	for name, role := range roles {
		for _, r := range role.Rules {
			if slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "*") || slices.Contains(r.Verbs, "*") || slices.Contains(r.APIGroups, "*") {
				t.Errorf("%s allows %v %v", name, r.Verbs, r.Resources)
			}
		}
	}
}
