package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// removing holds the kustomizations that uninstall a form, and keep, the component that leaves out
// what stays.
const removing = "uninstall"

// set is the objects of a kustomization, by identity.
type set map[string]any

func rendered(t *testing.T, dir string) set {
	t.Helper()
	found := set{}
	for _, o := range render(t, dir) {
		found[identity(t, o)] = o
	}
	return found
}

// uninstalled returns what the documented uninstall of a form deletes. A form without a namespace
// is deleted as it is.
func uninstalled(t *testing.T, form set) set {
	t.Helper()
	if _, ok := form["Namespace "+name]; !ok {
		return form
	}
	left := maps.Clone(form)
	for _, p := range one[*kustomization](t, path.Join(removing, "keep/kustomization.yaml")).Patches {
		maps.DeleteFunc(left, func(_ string, o any) bool { return targeted(t, o, p.Target) })
	}
	return left
}

// forms returns every kustomization that users apply, by directory.
func forms(t *testing.T) map[string]set {
	t.Helper()
	found := map[string]set{}
	for _, file := range files(t) {
		dir := path.Dir(file)
		// The two directories agent are parts of others.
		if path.Base(file) != "kustomization.yaml" || path.Base(dir) == "agent" || strings.HasPrefix(dir, removing) ||
			one[*kustomization](t, file).Kind == "Component" || dir == "legacy/classes" {
			continue
		}
		found[dir] = rendered(t, dir)
	}
	if len(found) < 20 {
		t.Fatalf("%d forms", len(found))
	}
	return found
}

// Every form has a directory that uninstalls it, and none deletes what other forms and claims need.
// Overlays of users do what the examples do here: they add the component.
func TestUninstallDirectories(t *testing.T) {
	var directories []set
	for _, file := range files(t) {
		if dir := path.Dir(file); strings.HasPrefix(dir, removing+"/") && path.Base(dir) != "keep" {
			directories = append(directories, rendered(t, dir))
		}
	}
	for dir, form := range forms(t) {
		left := uninstalled(t, form)
		for id := range left {
			for _, kind := range []string{"Namespace", "CustomResourceDefinition", "HostPathProvisioner", "CSIDriver", "PersistentVolume"} {
				if strings.HasPrefix(id, kind+" ") || strings.HasPrefix(id, kind+"Claim ") {
					t.Errorf("%s: the uninstall deletes %s", dir, id)
				}
			}
		}
		have := slices.ContainsFunc(directories, func(d set) bool { return maps.EqualFunc(d, left, func(any, any) bool { return true }) })
		if _, shared := form["Namespace "+name]; shared && !have && !strings.HasPrefix(dir, "examples/") {
			t.Errorf("%s: no directory of manifests/uninstall deletes %v", dir, slices.Sorted(maps.Keys(left)))
		}
	}
}

// A page names each directory that uninstalls a form.
func TestUninstallDirectoriesAreInAPage(t *testing.T) {
	var text string
	for _, page := range []string{"install.md", "operator.md", "raw-disks.md"} {
		data, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	for _, file := range files(t) {
		dir := path.Dir(file)
		if strings.HasPrefix(dir, removing+"/") && !regexp.MustCompile("manifests/"+dir+"[` \n]").MatchString(text) {
			t.Errorf("no page names manifests/%s", dir)
		}
	}
}

// The uninstall of a form deletes nothing of another form that can run beside it. Argo CD and Flux do not either.
func TestUninstallLeavesTheOtherForms(t *testing.T) {
	all := forms(t)
	pairs := 0
	for a, form := range all {
		for b, other := range all {
			if a == b || exclude(form, other) {
				continue
			}
			pairs++
			for id := range uninstalled(t, form) {
				if _, ok := other[id]; ok {
					t.Errorf("the uninstall of %s deletes %s of %s", a, id, b)
				}
			}
			for id, o := range form {
				if _, ok := other[id]; ok && !kept(t, o) {
					t.Errorf("%s and %s have %s, and Argo CD and Flux delete it with one of them", a, b, id)
				}
			}
		}
	}
	if pairs < 150 {
		t.Errorf("%d pairs", pairs)
	}
}

// exclude reports whether the forms cannot run at once: they have a workload or a class of one name.
func exclude(a, b set) bool {
	for id := range a {
		kind, _, _ := strings.Cut(id, " ")
		if _, ok := b[id]; ok && slices.Contains([]string{"DaemonSet", "Deployment", "StorageClass", "ValidatingAdmissionPolicy", "PodMonitor"}, kind) {
			return true
		}
	}
	return false
}

// kept reports whether Argo CD and Flux leave the object when it is in none of their sources any more.
func kept(t *testing.T, object any) bool {
	t.Helper()
	o := metadata(t, object)
	return o.Annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false" &&
		o.Annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"
}

// holdersQuota lets clusters that ask for a quota create the pods of holders, which may outlive the operator.
const holdersQuota = "ResourceQuota " + name + "/" + name + "-operator"

// The definition goes after the last resource, a claim of a pool is in the namespace, and so are holders.
func TestWhatClaimsNeedIsKept(t *testing.T) {
	for dir, form := range forms(t) {
		for id, o := range form {
			if (strings.HasPrefix(id, "Namespace ") || strings.HasPrefix(id, "CustomResourceDefinition ") || id == holdersQuota) && !kept(t, o) {
				t.Errorf("%s: Argo CD and Flux delete %s with the form", dir, id)
			}
		}
	}
}

// Annotations have 256 KiB, and kubectl apply notes the whole object in one. A definition grows with each key.
func TestKubectlApplyCanNoteEveryObject(t *testing.T) {
	largest := 0
	for dir, form := range forms(t) {
		for id, o := range form {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if largest = max(largest, len(text)); len(text) > 200<<10 {
				t.Errorf("%s: %s has %d bytes: docs/gitops.md says that kubectl apply notes it in an annotation", dir, id, len(text))
			}
		}
	}
	if largest < 60<<10 {
		t.Errorf("the largest object has %d bytes: the definition is not among them", largest)
	}
}
