package former

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templateHash is the annotation of the agents' pods with a hash of what their DaemonSet's template was
// without the nodes that are left out. Pods with the same one need not be replaced by one another.
const templateHash = "hostpathprovisioner.kubevirt.io/template"

// LeaveOut leaves the nodes out of a DaemonSet whose template is complete, and marks the template.
func LeaveOut(nodes []string, ds *appsv1.DaemonSet) error {
	t := &ds.Spec.Template
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode the template of DaemonSet %s: %w", ds.Name, err)
	}
	sum := sha256.Sum256(text)
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, templateHash, hex.EncodeToString(sum[:8]))
	t.Spec.Affinity = notOn(nodes, t.Spec.Affinity)
	return nil
}

// Spare has the agents stay although the template of want, their DaemonSet that LeaveOut marked, changes:
// if it leaves out other nodes than before, and nothing else, Kubernetes is to replace no pod for that.
// It only makes those that a node lacks. The strategy remains OnDelete until something else changes, and
// then the agents are replaced in turn.
//
// want does not change while a pod of another template runs.
func (r Agents) Spare(ctx context.Context, want *unstructured.Unstructured) error {
	var wanted appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &wanted); err != nil {
		return fmt.Errorf("read DaemonSet %s: %w", want.GetName(), err)
	}
	have, err := r.Installed.DaemonSet(ctx)
	if err != nil || have == nil || have.DeletionTimestamp != nil {
		return err
	}
	same := slices.Equal(LeftOutBy(have), LeftOutBy(&wanted))
	if same && have.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		return nil
	}
	if current, err := r.allOf(ctx, have, wanted.Spec.Template.Annotations[templateHash]); err != nil || !current {
		return err
	}
	onDelete := want.DeepCopy()
	if err := unstructured.SetNestedField(onDelete.Object, string(appsv1.OnDeleteDaemonSetStrategyType),
		"spec", "updateStrategy", "type"); err != nil {
		return err
	}
	if same { // another program changed the template, of which there may be pods
		if changed, err := r.Applier.Differs(ctx, onDelete.DeepCopy()); err != nil || changed {
			return err
		}
	}
	want.Object = onDelete.Object
	return nil
}

// allOf reports whether the DaemonSet has pods, and all that do not end are of the template with that hash.
func (r Agents) allOf(ctx context.Context, set *appsv1.DaemonSet, hash string) (bool, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Installed.Namespace)); err != nil {
		return false, fmt.Errorf("list the agents: %w", err)
	}
	found := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, set) || pod.DeletionTimestamp != nil {
			continue
		}
		if pod.Annotations[templateHash] != hash {
			return false, nil
		}
		found = true
	}
	return found, nil
}

// notOn returns the affinity without the nodes.
func notOn(nodes []string, affinity *corev1.Affinity) *corev1.Affinity {
	if len(nodes) == 0 {
		return affinity
	}
	var fields []corev1.NodeSelectorRequirement
	for _, node := range nodes { // a field takes one value
		fields = append(fields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField,
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	a := &corev1.Affinity{}
	if affinity != nil {
		a = affinity.DeepCopy()
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}}}
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
		return a
	}
	for i := range required.NodeSelectorTerms {
		// an empty one matches no node
		if term := &required.NodeSelectorTerms[i]; len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchFields = append(term.MatchFields, fields...)
		}
	}
	return a
}

// LeftOutBy returns the nodes that the DaemonSet leaves out by their names, as LeaveOut writes it, in their
// order.
func LeftOutBy(set *appsv1.DaemonSet) (nodes []string) {
	a := set.Spec.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpNotIn {
				nodes = append(nodes, field.Values...)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes) // each term has all
}
