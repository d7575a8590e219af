package manifests_test

import (
	"flag"
	"os"
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// -update writes testdata/immutable.yaml again.
var update = flag.Bool("update", false, "write the file of fields that cannot change again")

// The API server refuses another value of these fields once the object exists, so a release that
// changes one cannot be installed over the release before it. Whoever changes the file on purpose
// gives the object another name, or describes in docs/install.md what has to be deleted first.
func TestFieldsThatCannotChange(t *testing.T) {
	const file = "testdata/immutable.yaml"
	found := map[string]any{}
	for _, at := range files(t) {
		if path.Base(at) != "kustomization.yaml" || strings.HasPrefix(at, "uninstall/") || strings.HasPrefix(at, "examples/") ||
			at == "operator/agent/kustomization.yaml" || // the operator installs these objects
			one[*kustomization](t, at).Kind == "Component" {
			continue
		}
		dir := path.Dir(at)
		for _, o := range render(t, dir) {
			fields, id := immutable(o), identity(t, o)
			if fields == nil {
				continue
			}
			if first, there := found[id]; there && text(t, first) != text(t, fields) { // of two forms that cannot run at once
				id = dir + ": " + id
			}
			found[id] = fields
		}
	}
	got, err := yaml.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, append([]byte("# Fields that cannot change: TestFieldsThatCannotChange of manifests.\n"), got...), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var want map[string]any
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	var have map[string]any
	if err := yaml.Unmarshal(got, &have); err != nil {
		t.Fatal(err)
	}
	for id, fields := range want {
		switch now, there := have[id]; {
		case !there:
			t.Errorf("%s has gone or has another name: an upgrade leaves the old one behind", id)
		case text(t, now) != text(t, fields):
			t.Errorf("%s: an API server that has\n%srefuses\n%s", id, text(t, fields), text(t, now))
		}
	}
	for id := range have {
		if want[id] == nil {
			t.Errorf("%s is new: go test ./manifests -run TestFieldsThatCannotChange -update", id)
		}
	}
}

// immutable returns the fields of an object that the API server refuses to change, as
// Validate...Update of Kubernetes' packages pkg/apis/*/validation has them; nil for an object
// without such a field.
func immutable(object any) any {
	switch o := object.(type) {
	case *appsv1.DaemonSet:
		return map[string]any{"selector": o.Spec.Selector}
	case *appsv1.Deployment:
		return map[string]any{"selector": o.Spec.Selector}
	case *storagev1.CSIDriver:
		return map[string]any{"attachRequired": o.Spec.AttachRequired, "fsGroupPolicy": o.Spec.FSGroupPolicy,
			"volumeLifecycleModes": o.Spec.VolumeLifecycleModes}
	case *storagev1.StorageClass:
		return map[string]any{"provisioner": o.Provisioner, "parameters": o.Parameters, "reclaimPolicy": o.ReclaimPolicy,
			"volumeBindingMode": o.VolumeBindingMode}
	case *rbacv1.RoleBinding:
		return map[string]any{"roleRef": o.RoleRef}
	case *rbacv1.ClusterRoleBinding:
		return map[string]any{"roleRef": o.RoleRef}
	case *corev1.ResourceQuota:
		return map[string]any{"scopes": o.Spec.Scopes, "scopeSelector": o.Spec.ScopeSelector}
	}
	return nil
}
