package former

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The nodes are left out of every way in which the resource's affinity admits nodes.
func TestNotOn(t *testing.T) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}}
	given := &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{term, {}, term}}}}
	if got := notOn(nil, given); got != given {
		t.Errorf("without nodes: %v", got)
	}
	got := notOn([]string{"x", "y"}, given)
	for i, want := range []int{2, 0, 2} {
		if n := len(got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i].MatchFields); n != want {
			t.Errorf("term %d has %d fields, want %d", i, n, want)
		}
	}
	if got.PodAffinity == nil || len(given.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields) != 0 {
		t.Error("the resource's affinity was changed or lost")
	}
}

// The hash of a template changes with everything but the nodes that are left out.
func TestTemplateHash(t *testing.T) {
	hash := func(nodes []string, change func(*corev1.PodTemplateSpec)) string {
		t.Helper()
		ds := &appsv1.DaemonSet{}
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		change(&ds.Spec.Template)
		if err := LeaveOut(nodes, ds); err != nil {
			t.Fatal(err)
		}
		if got := LeftOutBy(ds); !slices.Equal(got, nodes) {
			t.Errorf("%v are left out, want %v", got, nodes)
		}
		return ds.Spec.Template.Annotations[templateHash]
	}
	first := hash(nil, func(*corev1.PodTemplateSpec) {})
	if first == "" || hash([]string{"x", "y"}, func(*corev1.PodTemplateSpec) {}) != first {
		t.Error("nodes that are left out change the hash")
	}
	for what, change := range map[string]func(*corev1.PodTemplateSpec){
		"an image":    func(t *corev1.PodTemplateSpec) { t.Spec.Containers = []corev1.Container{{Image: "v2"}} },
		"an affinity": func(t *corev1.PodTemplateSpec) { t.Spec.Affinity = nil },
		"a label":     func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"a": "b"} },
	} {
		if hash(nil, change) == first {
			t.Errorf("%s does not change the hash", what)
		}
	}
}
