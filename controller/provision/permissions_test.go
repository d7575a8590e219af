package provision

import (
	"bytes"
	"maps"
	"os"
	"path"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// What is not asked for at start is missed only when it is used; what is asked for in vain would
// keep every agent unready.
func TestNeededIsTheClusterRole(t *testing.T) {
	// Without these the loop does not start, and says so.
	want := map[string]bool{"get nodes": true, "get namespaces kube-system": true}
	for _, n := range needed {
		for verb := range strings.FieldsSeq(n.verbs) {
			want[verb+" "+path.Join(n.group, n.resource)] = true
		}
	}
	for _, mode := range []string{"legacy", "csi"} {
		data, err := os.ReadFile("../../manifests/" + mode + "/rbac.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		first, _, _ := bytes.Cut(data, []byte("\n---\n"))
		if err := yaml.UnmarshalStrict(first, &role); err != nil || role.Kind != "ClusterRole" {
			t.Fatalf("%s: %s, %v", mode, role.Kind, err)
		}
		got := map[string]bool{}
		for _, r := range role.Rules {
			what := path.Join(r.APIGroups[0], r.Resources[0])
			for _, name := range r.ResourceNames {
				what += " " + name
			}
			for _, verb := range r.Verbs {
				got[verb+" "+what] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the ClusterRole allows %v, the loop wants %v", mode, got, want)
		}
	}
}
