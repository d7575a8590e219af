package install

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

// tuned returns the layout of a resource with these settings, and its objects.
func tuned(t *testing.T, spec v1beta1.HostPathProvisionerSpec, data map[string]string) (plan, map[string]runtime.Object) {
	t.Helper()
	cr := &v1beta1.HostPathProvisioner{Spec: spec}
	l := plan{Layout: layout.Of(cr)}
	l.Tune(data)
	objects, err := Settings{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1"}.desired(cr, l)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]runtime.Object{}
	for _, o := range objects {
		all[o.GetKind()] = o
	}
	return l, all
}

func TestKubeletDir(t *testing.T) {
	_, objects := tuned(t, v1beta1.HostPathProvisionerSpec{PathConfig: &v1beta1.PathConfig{Path: "/var/lib/kubelet2"}},
		map[string]string{settings.KubeletDir: "/data/kubelet", "HPP_PURGE_RATE": "3", "nodeGoneGrace": "1h"})
	text, err := yaml.Marshal(objects["DaemonSet"])
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]int{
		"/var/lib/kubelet\n": 0, "/var/lib/kubelet/": 0, "/var/lib/kubelet2": 4, settings.KubeletDir: 0, "nodeGoneGrace": 0, "name: HPP_PURGE_RATE": 1,
		"--kubelet-dir=/data/kubelet\n": 1, "--kubelet-registration-path=/data/kubelet/plugins/csi-hostpath/csi.sock": 1,
		"mountPath: /data/kubelet/": 2, "path: /data/kubelet/": 3,
	} {
		if got := strings.Count(string(text), words); got != want {
			t.Errorf("%d times %q, want %d:\n%s", got, words, want, text)
		}
	}
}

// Agents migrate only where they serve both kinds of volumes, and then have more permissions.
func TestMigrationSettings(t *testing.T) {
	const migrateRules = 4
	pools := v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a"}}}
	data := map[string]string{settings.MigrateToCSI: "run"}
	l, _ := tuned(t, pools, data)
	if len(l.Tuned) != 0 || len(l.Invalid) != 1 || !strings.Contains(l.Invalid[0], `MIGRATE_TO_CSI is "run"; set it to off`) {
		t.Errorf("%+v", l)
	}
	if v := l.partly(false); v.reason != "SettingInvalid" || v.message != l.Invalid[0] || v.available != "" {
		t.Errorf("%+v", v)
	}
	path := v1beta1.HostPathProvisionerSpec{PathConfig: &v1beta1.PathConfig{Path: "/a"}}
	rules := func(data map[string]string) int {
		_, objects := tuned(t, path, data)
		var role rbacv1.ClusterRole
		text, err := yaml.Marshal(objects["ClusterRole"])
		if err == nil {
			err = yaml.Unmarshal(text, &role)
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(role.Rules)
	}
	if with, without := rules(data), rules(map[string]string{settings.MigrateToCSI: "off"}); with != without+migrateRules || without != 9 {
		t.Errorf("%d rules with migration, %d without", with, without)
	}
}
