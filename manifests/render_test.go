package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// render returns the objects of a kustomization: its resources, with its patches merged into them
// as the API server merges patches. What is the same for all objects, labels and images, is left
// out. kustomize/api does it all, and would be a dependency of the agent's module; e2e/nodes
// renders the same files with kubectl kustomize, which is that library.
func render(t *testing.T, dir string) []any {
	t.Helper()
	k := one[*kustomization](t, path.Join(dir, "kustomization.yaml"))
	var objects []any
	for _, r := range k.Resources {
		objects = append(objects, load(t, path.Join(dir, r))...)
	}
	for _, c := range k.Components {
		for _, p := range one[*kustomization](t, path.Join(dir, c, "kustomization.yaml")).Patches {
			if !strings.HasPrefix(p.Patch, "$patch: delete\n") {
				t.Fatalf("%s: this test knows only patches of components that delete", path.Join(dir, c))
			}
			objects = slices.DeleteFunc(objects, func(o any) bool { return targeted(t, o, p.Target) })
		}
	}
	for _, p := range k.Patches {
		objects = patch(t, objects, path.Join(dir, p.Path))
	}
	return objects
}

// targeted reports whether a patch is for the object: its target has expressions for the kind and
// the name.
func targeted(t *testing.T, object any, target map[string]string) bool {
	t.Helper()
	kind, name, _ := strings.Cut(identity(t, object), " ")
	for key, value := range target {
		is, known := map[string]string{"kind": kind, "name": path.Base(name)}[key]
		if !known {
			t.Fatalf("a patch has a target with %s, which this test does not know", key)
		}
		if !regexp.MustCompile("^(" + value + ")$").MatchString(is) {
			return false
		}
	}
	return true
}

// load returns the objects of a file, or those of the kustomization in a directory.
func load(t *testing.T, at string) []any {
	t.Helper()
	if path.Ext(at) == ".yaml" {
		return decode(t, at)
	}
	return render(t, at)
}

// patch merges every document of the file into the object that it names, or removes that object.
func patch(t *testing.T, objects []any, file string) []any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		change, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		id := identity(t, json.RawMessage(change))
		at := slices.IndexFunc(objects, func(o any) bool { return identity(t, o) == id })
		if at < 0 {
			t.Fatalf("%s: patches %s, which is no resource", file, id)
		}
		if bytes.Contains(change, []byte(`"$patch":"delete"`)) && len(change) < 200 { // the whole object
			objects = slices.Delete(objects, at, at+1)
			continue
		}
		merged, err := strategicpatch.StrategicMergePatch(asJSON(t, objects[at]), change, objects[at])
		if err != nil {
			t.Fatalf("%s: %s: %v", file, id, err)
		}
		kind, _, _ := strings.Cut(id, " ")
		objects[at] = empty(kind)
		if err := json.Unmarshal(merged, objects[at]); err != nil {
			t.Fatalf("%s: %s: %v", file, id, err)
		}
	}
	return objects
}

// metadata returns the kind and the metadata of an object.
func metadata(t *testing.T, object any) (o metav1.PartialObjectMetadata) {
	t.Helper()
	if err := json.Unmarshal(asJSON(t, object), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// identity is what says that two objects are one: kind, namespace and name.
func identity(t *testing.T, object any) string {
	t.Helper()
	o := metadata(t, object)
	return o.Kind + " " + path.Join(o.Namespace, o.Name)
}

func asJSON(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
