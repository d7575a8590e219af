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

	corev1 "k8s.io/api/core/v1"
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
	return accumulate(t, nil, dir)
}

// accumulate adds the objects of a kustomization to those of another one of which it is a component,
// and applies its patches to all of them.
func accumulate(t *testing.T, objects []any, dir string) []any {
	t.Helper()
	k := one[*kustomization](t, path.Join(dir, "kustomization.yaml"))
	for _, r := range k.Resources {
		objects = append(objects, load(t, path.Join(dir, r))...)
	}
	for _, g := range k.ConfigMapGenerator {
		objects = append(objects, g.generate(t, dir))
	}
	for _, c := range k.Components {
		objects = accumulate(t, objects, path.Join(dir, c))
	}
	for _, p := range k.Patches {
		switch {
		case strings.HasPrefix(p.Patch, "$patch: delete\n"):
			objects = slices.DeleteFunc(objects, func(o any) bool { return targeted(t, o, p.Target) })
		case p.Patch != "":
			t.Fatalf("%s: this test knows only inline patches that delete", dir)
		case p.Target != nil:
			patchAll(t, objects, path.Join(dir, p.Path), p.Target)
		default:
			objects = patch(t, objects, path.Join(dir, p.Path))
		}
	}
	return objects
}

func (g generator) generate(t *testing.T, dir string) *corev1.ConfigMap {
	t.Helper()
	if !g.Options.DisableNameSuffixHash {
		t.Errorf("%s: the ConfigMap %s gets another name with each change, and the old one stays", dir, g.Name)
	}
	o := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: g.Name, Namespace: g.Namespace, Labels: g.Options.Labels}, Data: map[string]string{}}
	for _, file := range g.Files {
		data, err := os.ReadFile(path.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		o.Data[file] = string(data)
	}
	return o
}

// patchAll merges the only document of the file into each object of the target.
func patchAll(t *testing.T, objects []any, file string, target map[string]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var change map[string]any
	if err := yaml.Unmarshal(data, &change); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	delete(change, "metadata") // its name is that of no object
	for i, o := range objects {
		if targeted(t, o, target) {
			objects[i] = merge(t, file, o, asJSON(t, change))
		}
	}
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
		objects[at] = merge(t, file, objects[at], change)
	}
	return objects
}

// merge returns an object with a change.
func merge(t *testing.T, file string, object any, change []byte) any {
	t.Helper()
	merged, err := strategicpatch.StrategicMergePatch(asJSON(t, object), change, object)
	if err != nil {
		t.Fatalf("%s: %s: %v", file, identity(t, object), err)
	}
	changed := empty(metadata(t, object).Kind)
	if err := json.Unmarshal(merged, changed); err != nil {
		t.Fatalf("%s: %s: %v", file, identity(t, object), err)
	}
	return changed
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
