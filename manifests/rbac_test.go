package manifests_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// loopRules are what the provisioner needs in the whole cluster, whichever claims it serves.
var loopRules = map[string]string{
	"/persistentvolumes":             "get list watch create patch delete",
	"/persistentvolumeclaims":        "get list watch update patch",
	"/persistentvolumeclaims/status": "patch",
	"storage.k8s.io/storageclasses":  "list watch",
	"/nodes":                         "get",
	"/namespaces":                    "get",
	"/events":                        "get create patch",
}

func TestRulesAreTheTable(t *testing.T) {
	want := maps.Clone(loopRules)
	want["apps/daemonsets "+name] = "list"
	wantRules(t, "legacy", one[*rbacv1.ClusterRole](t, "legacy").Rules, want)
}

func TestCSIRulesAreTheTable(t *testing.T) {
	type table struct{ cluster, namespace map[string]string }
	cluster := maps.Clone(loopRules)
	cluster["storage.k8s.io/csinodes"] = "get"
	cluster["storage.k8s.io/csidrivers "+contract.CSIProvisioner] = "get"
	agents := table{cluster, map[string]string{
		"storage.k8s.io/csistoragecapacities": "get list watch create update delete",
		"/pods":                               "get",
		"apps/daemonsets " + csiName:          "list",
	}}
	// The sidecar's, because the agent beside it asks nothing.
	others := map[string]table{sidecars: {
		map[string]string{
			"/persistentvolumes":            "get list watch create patch delete",
			"/persistentvolumeclaims":       "get list watch update",
			"storage.k8s.io/storageclasses": "get list watch",
			"/events":                       "create patch",
		},
		map[string]string{
			"storage.k8s.io/csistoragecapacities": "get list watch create update delete",
			"/pods":                               "get",
		},
	}}
	for _, at := range csiModes {
		want, other := others[at]
		if !other {
			want = agents
		}
		wantRules(t, at, one[*rbacv1.ClusterRole](t, at).Rules, want.cluster)
		wantRules(t, at, one[*rbacv1.Role](t, at).Rules, want.namespace)
	}
}

// wantRules compares rules with a table of what may be done to what.
func wantRules(t *testing.T, file string, rules []rbacv1.PolicyRule, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, rule := range rules {
		if len(rule.APIGroups) != 1 || len(rule.Resources) != 1 || len(rule.NonResourceURLs) != 0 {
			t.Errorf("%s: rule %v: one group and one resource each, so that its reason stands beside it", file, rule)
			continue
		}
		key := strings.Join(append([]string{rule.APIGroups[0] + "/" + rule.Resources[0]}, rule.ResourceNames...), " ")
		if _, twice := got[key]; twice {
			t.Errorf("%s: %s: has two rules", file, key)
		}
		got[key] = strings.Join(rule.Verbs, " ")
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s: %s: may %q, want %q", file, key, got[key], want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s: may %q, want nothing", file, key, got[key])
		}
	}
}

func TestAccountsAreBound(t *testing.T) {
	for at, want := range map[string]struct{ role, account string }{
		"legacy": {name, account}, "csi": {csiName, csiAccount},
	} {
		subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: want.account, Namespace: name}}
		role, binding := one[*rbacv1.ClusterRole](t, at), one[*rbacv1.ClusterRoleBinding](t, at)
		if role.Name != want.role || binding.Name != want.role || binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != want.role {
			t.Errorf("%s: binding %s gives %v, want %s", at, binding.Name, binding.RoleRef, want.role)
		}
		if !slices.Equal(binding.Subjects, subjects) {
			t.Errorf("%s: bound to %v, want %v", at, binding.Subjects, subjects)
		}
		sa, ds := one[*corev1.ServiceAccount](t, at), one[*appsv1.DaemonSet](t, at)
		if sa.Name != want.account || sa.Namespace != name || ds.Namespace != name || one[*corev1.Namespace](t, at).Name != name {
			t.Errorf("%s: account %s/%s, DaemonSet in %s; want %s/%s", at, sa.Namespace, sa.Name, ds.Namespace, name, want.account)
		}
	}
	role, binding := one[*rbacv1.Role](t, "csi"), one[*rbacv1.RoleBinding](t, "csi")
	if role.Name != csiName || role.Namespace != name || binding.Namespace != name ||
		binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != csiName {
		t.Errorf("binding %s/%s gives %v, want %s", binding.Namespace, binding.Name, binding.RoleRef, csiName)
	}
	if want := one[*rbacv1.ClusterRoleBinding](t, "csi").Subjects; !slices.Equal(binding.Subjects, want) {
		t.Errorf("bound to %v, want %v", binding.Subjects, want)
	}
}

// The operator grants no more than it may do itself, acts as no one else, and reads no Secret but
// its webhook's and that of the account that reads its metrics, which can do nothing else.
func TestOperatorGrantsNoMore(t *testing.T) {
	rules := slices.Concat(one[*rbacv1.ClusterRole](t, "operator").Rules, one[*rbacv1.Role](t, "operator").Rules)
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			secret := slices.Contains(rule.Resources, "secrets") && verb != "create" &&
				!slices.Equal(rule.ResourceNames, []string{"hostpath-provisioner-operator-webhook-service-cert"}) &&
				!slices.Equal(rule.ResourceNames, []string{"hpp-metrics-reader"})
			if slices.Contains([]string{"*", "escalate", "bind", "impersonate"}, verb) || secret || slices.Contains(rule.Resources, "*") {
				t.Errorf("the operator may %s %v %v", verb, rule.Resources, rule.ResourceNames)
			}
		}
	}
}
