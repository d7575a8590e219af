package manifests_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// charted has the kustomization of each render of the chart.
var charted = map[string]string{
	"csi": "csi", "legacy": "legacy", "both": "examples/both-modes", "local-path": "local-path", "single-node": "single-node",
	"operator": "operator", "disks": "local-pv", "policy": "policy", "monitoring": "monitoring", "openshift": "openshift",
	"openshift-csi": "openshift-csi", "kubelet-dir": "distributions/k0s", "microk8s": "distributions/microk8s",
	"talos": "distributions/talos", "own-disk": "examples/own-disk",
	"legacy-quotas": "examples/legacy-quotas", "other-path": "examples/other-path",
	"metrics-auth": "examples/metrics-auth", "monitored": "examples/monitoring",
}

// The chart installs what the kustomizations do, but for the namespace, which Helm creates, and the
// classes, which cannot change when a chart does. So each can take the other's place.
func TestChartIsTheKustomizations(t *testing.T) {
	renders, err := filepath.Glob("../e2e/chart/renders/*.yaml")
	if err != nil || len(renders) != len(charted) {
		t.Fatalf("%d renders, want %d; %v", len(renders), len(charted), err)
	}
	for _, file := range renders {
		form := strings.TrimSuffix(filepath.Base(file), ".yaml")
		want := map[string]any{}
		for _, o := range render(t, charted[form]) {
			if id := identity(t, o); !strings.HasPrefix(id, "Namespace ") && !strings.HasPrefix(id, "StorageClass ") {
				want[id] = plain(t, asJSON(t, o))
			}
		}
		got := chartObjects(t, file)
		for id := range maps.Keys(want) {
			switch have, found := got[id]; {
			case !found:
				t.Errorf("%s: the chart lacks %s", form, id)
			case !reflect.DeepEqual(have, want[id]):
				t.Errorf("%s: %s differs:\n%s\nwant\n%s", form, id, text(t, have), text(t, want[id]))
			}
		}
		for id := range got {
			if want[id] == nil {
				t.Errorf("%s: the chart has %s, and manifests/%s has not", form, id, charted[form])
			}
		}
	}
}

// The notes of an installation have the classes of the kustomization, complete, so that they can be
// copied and applied.
func TestNotesHaveTheClasses(t *testing.T) {
	notes, err := filepath.Glob("../e2e/chart/renders/*.notes.txt")
	if err != nil || len(notes) != 7 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	for _, file := range notes {
		form := strings.TrimSuffix(filepath.Base(file), ".notes.txt")
		want := map[string]string{}
		dir := charted[form]
		if form == "operator" { // its classes are made by hand
			dir = "csi"
		}
		for _, class := range all[*storagev1.StorageClass](t, dir) {
			want[class.Name] = text(t, plain(t, asJSON(t, class)))
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, classes, _ := strings.Cut(string(data), "Apply what you need:\n")
		classes, _, _ = strings.Cut(classes, "\n\nNo disk")
		for document := range strings.SplitSeq(classes, "\n    ---\n") {
			var class storagev1.StorageClass
			if err := yaml.UnmarshalStrict([]byte(document), &class); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if got := text(t, plain(t, asJSON(t, &class))); got != want[class.Name] {
				t.Errorf("%s: class %s is\n%s\nand in manifests/%s\n%s", file, class.Name, got, dir, want[class.Name])
			}
			delete(want, class.Name)
		}
		if len(want) > 0 {
			t.Errorf("%s: it lacks classes of manifests/%s: %v", file, dir, want)
		}
	}
}

// The chart accepts each value that the agent accepts.
func TestSchemaKnowsTheModes(t *testing.T) {
	data, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Migrate struct {
				Properties struct {
					ToCSI struct{ Enum []string } `json:"toCSI"`
				} `json:"properties"`
			} `json:"migrate"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	want := []string{"", "off", "plan", "run", "back", "annotated"}
	if got := schema.Properties.Migrate.Properties.ToCSI.Enum; !slices.Equal(got, want) {
		t.Errorf("migrate.toCSI is one of %q, want %q", got, want)
	}
}

// chartObjects returns the objects of a render, as those of manifests are compared.
func chartObjects(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("registry.example.com/hostpath-provisioner:v0.1.0"), []byte(placeholder))
	all := map[string]any{}
	for document := range strings.SplitSeq("\n"+string(data), "\n---\n") {
		document, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if string(document) == "null" {
			continue
		}
		meta := metadata(t, json.RawMessage(document))
		if meta.Annotations["helm.sh/hook"] != "" { // the chart's own
			continue
		}
		object := empty(meta.Kind)
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		labels := meta.Labels
		if labels["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("%s: %s has labels %v", file, identity(t, object), labels)
		}
		all[identity(t, object)] = plain(t, asJSON(t, object))
	}
	return all
}

// plain returns an object without labels, which kustomize and Helm add, without what only Helm
// reads, and with named lists in the order of the names. Labels of a selector stay.
func plain(t *testing.T, object []byte) any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	strip(o)
	return o
}

func strip(value any) {
	switch v := value.(type) {
	case map[string]any:
		if m, ok := v["metadata"].(map[string]any); ok {
			delete(m, "labels")
			if a, ok := m["annotations"].(map[string]any); ok {
				delete(a, "helm.sh/resource-policy")
			}
		}
		for key, child := range v {
			strip(child)
			var list []any // a variable such as DATADIR, whose keys may have another order
			if text, ok := child.(string); ok && json.Unmarshal([]byte(text), &list) == nil {
				v[key] = list
			}
		}
	case []any:
		for _, child := range v {
			strip(child)
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(nameIn(a), nameIn(b)) })
	}
}

// nameIn returns the name of an element of a list, "" for one without.
func nameIn(value any) string {
	m, _ := value.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
