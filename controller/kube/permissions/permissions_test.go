package permissions

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// A permission that is not checked at the start would be missed only when it is used. One that is
// checked and not in the role would keep every agent unready.
func TestNeededIsTheClusterRole(t *testing.T) {
	driver, capacity := Driver()
	sidecar, sidecarHere := Sidecar()
	disks, disksHere := Disks()
	// Without this one the agent does not start, and logs the reason.
	provisioner := append(Provisioner(), Rule{"", "nodes", "", "get"}, Namespaces())
	for _, row := range []struct {
		mode, kind string
		rules      []Rule
	}{
		{"legacy", "ClusterRole", append(slices.Clone(provisioner), Count("hostpath-provisioner"))},
		{"csi", "ClusterRole", slices.Concat(provisioner, driver)},
		{"csi", "Role", capacity},
		{"csi-sidecars", "ClusterRole", sidecar},
		{"csi-sidecars", "Role", sidecarHere},
		{"local-pv", "ClusterRole", disks},
		{"local-pv", "Role", disksHere},
	} {
		want := map[string]bool{}
		for _, r := range row.rules {
			for verb := range strings.FieldsSeq(r.Verbs) {
				want[strings.TrimSpace(verb+" "+path.Join(r.Group, r.Resource)+" "+r.Object)] = true
			}
		}
		maps.DeleteFunc(want, func(what string, _ bool) bool { // a rule without a name has those with one
			all, name, named := strings.Cut(what, " namespaces ")
			return named && name != "" && want[all+" namespaces"]
		})
		if got := shipped(t, row.mode, row.kind); !maps.Equal(got, want) {
			t.Errorf("the %s of %s allows %v, the list has %v", row.kind, row.mode, got, want)
		}
	}
}

// shipped returns what the first role of a kind allows.
func shipped(t *testing.T, mode, kind string) map[string]bool {
	t.Helper()
	file := "rbac.yaml"
	if mode == "csi-sidecars" { // of patches, one object a file
		file = strings.ToLower(kind) + ".yaml"
	}
	data, err := os.ReadFile(path.Join("../../../manifests", mode, file))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		if role.Kind != kind {
			continue
		}
		for _, r := range role.Rules {
			what := path.Join(r.APIGroups[0], r.Resources[0])
			for _, name := range r.ResourceNames {
				what += " " + name
			}
			for _, verb := range r.Verbs {
				got[verb+" "+what] = true
			}
		}
	}
	return got
}

// without lists only permissions that are checked.
func TestWithoutIsNeeded(t *testing.T) {
	asked := map[Permission]bool{"get nodes": true}
	driver, _ := Driver()
	for _, r := range append(slices.Concat(Provisioner(), driver), Namespaces()) {
		for verb := range strings.FieldsSeq(r.Verbs) {
			asked[of(verb, r)] = true
		}
	}
	for p := range without {
		if !asked[p] {
			t.Errorf("%q is not checked", p)
		}
	}
	if !asked[PatchPVs] {
		t.Errorf("%q is not checked", PatchPVs)
	}
}

// A claim is given back by a patch or, with an older ClusterRole, by an update.
func TestPatchOrUpdateOfClaims(t *testing.T) {
	const other Permission = "get events"
	for _, row := range []struct{ missing, want []Permission }{
		{[]Permission{patchClaims, other}, []Permission{other}},
		{[]Permission{updateClaims}, nil},
		{[]Permission{updateClaims, other, patchClaims}, []Permission{updateClaims, other, patchClaims}},
	} {
		if got := withoutAlternatives(slices.Clone(row.missing)); !slices.Equal(got, row.want) {
			t.Errorf("of %q are missing %q, want %q", row.missing, got, row.want)
		}
	}
}

// The sidecar updates claims and has no alternative.
func TestMissing(t *testing.T) {
	sidecar, _ := Sidecar()
	for name, row := range map[string]struct {
		rules []Rule
		want  []Permission
	}{"agent": {Provisioner(), []Permission{}}, "sidecar": {sidecar, []Permission{updateClaims}}} {
		got, err := Missing(row.rules, func(what *authorizationv1.ResourceAttributes) (bool, error) {
			return what.Verb != "update", nil
		})
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: missing %q, %v, want %q", name, got, err, row.want)
		}
	}
	if _, err := Missing(sidecar, func(*authorizationv1.ResourceAttributes) (bool, error) { return false, errors.New("x") }); err == nil {
		t.Error("an error of the API server is not returned")
	}
}
