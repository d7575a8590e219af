package manifests_test

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

const localPathName = "hostpath-provisioner-local-path"

// localPathForms are what is applied, with the base directory, the class and its volume type of
// each.
var localPathForms = map[string]struct{ dir, class, volumeType string }{
	"local-path":          {"/opt/local-path-provisioner", "local-path", ""},
	"local-path/k3s":      {"/var/lib/rancher/k3s/storage", "local-path", "local"},
	"local-path/kind":     {"/var/local-path-provisioner", "standard", ""},
	"local-path/microk8s": {"/var/snap/microk8s/common/local-path-provisioner", "local-path", ""},
}

// The base directory is the same in PV_DIR, on the host, in the container and in config.json.
func TestLocalPathDirectoryIsOneAndTheSame(t *testing.T) {
	for at, want := range localPathForms {
		pod, c := agent(t, at)
		env := environment(c)
		if env["PV_DIR"] != want.dir || hostOf(pod, c, want.dir) != want.dir {
			t.Errorf("%s: PV_DIR is %q, the volumes are %v, the mounts %v; want %s", at, env["PV_DIR"], pod.Volumes, c.VolumeMounts, want.dir)
		}
		if m := mountAt(c, want.dir); m.ReadOnly || *m.MountPropagation != corev1.MountPropagationHostToContainer || len(c.VolumeMounts) != 2 {
			t.Errorf("%s: mounts %v, want that of PV_DIR and the configuration", at, c.VolumeMounts)
		}
		cm := one[*corev1.ConfigMap](t, at)
		var config struct {
			NodePathMap []struct {
				Node  string
				Paths []string
			}
		}
		if err := json.Unmarshal([]byte(cm.Data["config.json"]), &config); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		if n := config.NodePathMap; len(n) != 1 || n[0].Node != "DEFAULT_PATH_FOR_NON_LISTED_NODES" || !slices.Equal(n[0].Paths, []string{want.dir}) {
			t.Errorf("%s: config.json has %v, want %s", at, n, want.dir)
		}
		m := mountAt(c, path.Dir(env["HPP_LOCAL_PATH_CONFIG"]))
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || pod.Volumes[i].ConfigMap == nil || pod.Volumes[i].ConfigMap.Name != cm.Name || m.SubPath != "" {
			t.Errorf("the configuration %s is not in the volume of ConfigMap %s: %v", env["HPP_LOCAL_PATH_CONFIG"], cm.Name, m)
		}
		if env["COMPAT"] != "local-path" || cm.Namespace != name {
			t.Errorf("COMPAT is %q, the ConfigMap is in %s", env["COMPAT"], cm.Namespace)
		}
	}
}

// The classes are those of the provisioners that the forms stand in for, and their claims can grow.
func TestLocalPathClasses(t *testing.T) {
	for at, want := range localPathForms {
		c := one[*storagev1.StorageClass](t, at)
		if c.Name != want.class || c.Provisioner != "rancher.io/local-path" || c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" ||
			c.Annotations["defaultVolumeType"] != want.volumeType || len(c.Parameters) > 0 {
			t.Errorf("%s: class %+v", at, c.ObjectMeta)
		}
		if *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || *c.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete || !*c.AllowVolumeExpansion {
			t.Errorf("%s: class %+v", at, c)
		}
	}
}

// Besides what every agent may do, it may see whether the provisioner that it stands in for still
// runs.
func TestLocalPathRules(t *testing.T) {
	const at = "local-path"
	want := maps.Clone(loopRules)
	want["apps/daemonsets "+localPathName] = "list"
	want["apps/deployments local-path-provisioner"] = "list watch"
	want["/pods"] = "list watch"
	role, binding := one[*rbacv1.ClusterRole](t, at), one[*rbacv1.ClusterRoleBinding](t, at)
	wantRules(t, at, role.Rules, want)
	if role.Name != localPathName || binding.Name != localPathName || binding.RoleRef.Name != localPathName ||
		!slices.Equal(binding.Subjects, one[*rbacv1.ClusterRoleBinding](t, "legacy").Subjects) {
		t.Errorf("binding %+v", binding)
	}
}

// The agent is the one of legacy, with quotas; its pods are told apart by their label.
func TestLocalPathAgentIsThatOfLegacy(t *testing.T) {
	ds := one[*appsv1.DaemonSet](t, "local-path")
	label := map[string]string{"k8s-app": localPathName}
	if ds.Name != localPathName || !maps.Equal(ds.Spec.Selector.MatchLabels, label) || !maps.Equal(ds.Spec.Template.Labels, label) {
		t.Errorf("DaemonSet %s selects %v of %v", ds.Name, ds.Spec.Selector, ds.Spec.Template.Labels)
	}
	_, withQuotas := agent(t, "examples/legacy-quotas")
	for at := range localPathForms {
		got, _ := agent(t, at)
		want, _ := agent(t, "legacy")
		c, legacy := &got.Containers[0], &want.Containers[0]
		if !apiequality.Semantic.DeepEqual(c.SecurityContext, withQuotas.SecurityContext) {
			t.Errorf("%s: runs with %+v, want %+v", at, c.SecurityContext, withQuotas.SecurityContext)
		}
		legacy.SecurityContext, legacy.Env, legacy.VolumeMounts, want.Volumes = c.SecurityContext, c.Env, c.VolumeMounts, got.Volumes
		if !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", at, got, want)
		}
	}
}
