package manifests_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	disksDir     = "local-pv"
	disksName    = "hostpath-provisioner-disks"
	disksAccount = "hostpath-provisioner-admin-disks"
	leasesPolicy = "hostpath-provisioner-disk-leases"
)

// The whole of what disks need, and nothing of what directories need.
func TestDisksRulesAreTheTable(t *testing.T) {
	wantRules(t, disksDir, one[*rbacv1.ClusterRole](t, disksDir).Rules, map[string]string{
		"/persistentvolumes":      "get list watch create delete",
		"/persistentvolumeclaims": "list",
		"/nodes":                  "get list watch",
		"/events":                 "create",
	})
	wantRules(t, disksDir, one[*rbacv1.Role](t, disksDir).Rules, map[string]string{
		"/configmaps":                "get list watch",
		"coordination.k8s.io/leases": "get list create delete",
	})
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: disksAccount, Namespace: name}}
	cluster, own := one[*rbacv1.ClusterRoleBinding](t, disksDir), one[*rbacv1.RoleBinding](t, disksDir)
	if cluster.RoleRef.Name != disksName || own.RoleRef.Name != disksName || own.Namespace != name ||
		!slices.Equal(cluster.Subjects, subjects) || !slices.Equal(own.Subjects, subjects) {
		t.Errorf("bound: %+v and %+v", cluster, own)
	}
}

func TestDisksDaemonSet(t *testing.T) {
	ds := one[*appsv1.DaemonSet](t, disksDir)
	pod, c := agent(t, disksDir)
	if ds.Name != disksName || !maps.Equal(ds.Spec.Selector.MatchLabels, map[string]string{"k8s-app": disksName}) || pod.ServiceAccountName != disksAccount {
		t.Errorf("DaemonSet %s selects %v and runs as %s", ds.Name, ds.Spec.Selector, pod.ServiceAccountName)
	}
	if s := c.SecurityContext; !*s.Privileged || !*s.ReadOnlyRootFilesystem {
		t.Errorf("security context %+v, want privileged, with a root filesystem that is read-only", s)
	}
	if m := mountAt(c, "/dev"); len(c.VolumeMounts) != 1 || *m.MountPropagation != corev1.MountPropagationHostToContainer || hostOf(pod, c, "/dev") != "/dev" {
		t.Errorf("mounts %+v, want /dev of the host alone", c.VolumeMounts)
	}
	if c.Image != placeholder || !slices.Equal(c.Args, []string{"disks"}) {
		t.Errorf("runs %s %q", c.Image, c.Args)
	}
	want := map[string]string{"LP_NODE_NAME": "spec.nodeName", "LP_NAMESPACE_NAME": "metadata.namespace", "LP_METRICS_ADDR": ":8080"}
	if got := environment(c); !maps.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.Ports[0].ContainerPort != 8080 {
		t.Errorf("probes %v and %v on %v", c.LivenessProbe, c.ReadinessProbe, c.Ports)
	}
}

// The samples wipe nothing that carries data, and every byte of what they wipe.
func TestDisksSamples(t *testing.T) {
	class := one[*storagev1.StorageClass](t, disksDir)
	want := map[string]string{"local-pv-block": "", "local-pv-ext4": "ext4", "local-pv-xfs": "xfs", "local-pv-btrfs": "btrfs"}
	for _, cm := range all[*corev1.ConfigMap](t, disksDir) {
		fs, known := want[cm.Name]
		if !known || cm.Data["fsType"] != fs || cm.Data["storageClassName"] != class.Name || cm.Data["wipe"] != "" || cm.Data["existing"] != "" {
			t.Errorf("ConfigMap %s: %v", cm.Name, cm.Data)
		}
		delete(want, cm.Name)
	}
	if len(want) > 0 {
		t.Errorf("no samples for %v", want)
	}
	if *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || class.Provisioner != "kubernetes.io/no-provisioner" {
		t.Errorf("class %+v", class)
	}
}

// The third account is held by policies of its own, and by no others.
func TestDisksPolicy(t *testing.T) {
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t, "policy") {
		own := p.Name == disksName || p.Name == leasesPolicy
		quoted := regexp.MustCompile(`matches\(\s*'([^']+)'\)$`).FindStringSubmatch(p.Spec.MatchConditions[0].Expression)
		if holds := regexp.MustCompile(quoted[1]).MatchString("system:serviceaccount:any:" + disksAccount); holds != own {
			t.Errorf("%s holds the account: %v", p.Name, holds)
		}
		if own && (*p.Spec.FailurePolicy != admissionv1.Fail || len(p.Spec.MatchConstraints.ResourceRules[0].Operations) != 3) {
			t.Errorf("policy %+v", p)
		}
	}
	denies := map[string]bool{}
	for _, b := range all[*admissionv1.ValidatingAdmissionPolicyBinding](t, "policy") {
		denies[b.Spec.PolicyName] = slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) &&
			(b.Spec.ParamRef == nil || *b.Spec.ParamRef.ParameterNotFoundAction == admissionv1.DenyAction)
	}
	if !denies[disksName] || !denies[leasesPolicy] {
		t.Errorf("bindings that deny: %v", denies)
	}
}
