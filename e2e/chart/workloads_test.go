package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// everywhere are values for every workload.
const everywhere = `
image: {pullPolicy: Always}
imagePullSecrets: [{name: registry}]
resources: {requests: {cpu: 7m}, limits: {memory: 77Mi}}
nodeSelector: {disk: fast}
tolerations: [{key: storage, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}
priorityClassName: storage
podAnnotations: {team: storage}
podLabels: {cost: "1"}
disks: {enabled: true}
policy: {enabled: true}
`

// workload is an object with a pod template.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector *metav1.LabelSelector   `json:"selector"`
		Template *corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// Values for all workloads reach each of them, whichever the form is: an agent without a toleration
// is one that its node does not get.
func TestValuesReachEveryWorkload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(everywhere), 0o644); err != nil {
		t.Fatal(err)
	}
	for form, own := range map[string][]string{
		"csi": {"DaemonSet/hostpath-provisioner-csi"}, "both": {"DaemonSet/hostpath-provisioner-csi"},
		"legacy": {"DaemonSet/hostpath-provisioner"}, "single-node": {"DaemonSet/hostpath-provisioner"},
		"local-path": {"DaemonSet/hostpath-provisioner-local-path"},
		"operator":   {"Deployment/hostpath-provisioner-operator"}, "none": nil,
	} {
		out, err := helm(t, append([]string{"template", "--values=" + file}, with([]string{"form=" + form})...)...)
		if err != nil {
			t.Errorf("%s: %v\n%s", form, err, out)
			continue
		}
		found := map[string]bool{}
		for document := range strings.SplitSeq("\n"+out, "\n---\n") {
			var w workload
			if err := yaml.Unmarshal([]byte(document), &w); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if w.Spec.Template == nil {
				continue
			}
			name := w.Kind + "/" + w.Name
			found[name] = true
			w.hasEverything(t, form+" "+name)
		}
		want := append([]string{"DaemonSet/hostpath-provisioner-disks", removalJob, "Job/hostpath-provisioner-upgrade"}, own...)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: workloads %q, want %q", form, got, want)
		}
	}
}

const removalJob = "Job/hostpath-provisioner-removal"

func (w workload) hasEverything(t *testing.T, name string) {
	t.Helper()
	var want struct {
		Resources         corev1.ResourceRequirements
		Tolerations       []corev1.Toleration
		Affinity          *corev1.Affinity
		ImagePullSecrets  []corev1.LocalObjectReference
		PodLabels         map[string]string
		NodeSelector      map[string]string
		PriorityClassName string
	}
	if err := yaml.Unmarshal([]byte(everywhere), &want); err != nil {
		t.Fatal(err)
	}
	want.NodeSelector["kubernetes.io/os"] = "linux"
	pod := w.Spec.Template.Spec
	for what, pair := range map[string][2]any{
		"resources": {pod.Containers[0].Resources, want.Resources}, "tolerations": {pod.Tolerations, want.Tolerations},
		"affinity": {pod.Affinity, want.Affinity}, "imagePullSecrets": {pod.ImagePullSecrets, want.ImagePullSecrets},
		"nodeSelector": {pod.NodeSelector, want.NodeSelector}, "priorityClassName": {pod.PriorityClassName, want.PriorityClassName},
		"annotation": {w.Spec.Template.Annotations["team"], "storage"}, "label": {w.Spec.Template.Labels["cost"], "1"},
	} {
		if got, want := asJSON(t, pair[0]), asJSON(t, pair[1]); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s is %s, want %s", name, what, got, want)
		}
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.ImagePullPolicy != corev1.PullAlways || c.Image != "registry.example.com/hostpath-provisioner:v0.1.0" {
			t.Errorf("%s: container %s has image %s, policy %s", name, c.Name, c.Image, c.ImagePullPolicy)
		}
	}
	if w.Spec.Selector == nil { // a Job
		return
	}
	for key, value := range w.Spec.Selector.MatchLabels {
		if w.Spec.Template.Labels[key] != value {
			t.Errorf("%s: its pods lack the label %s", name, key)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
