package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// foreignFields returns the object's managed fields as they are to be, if others than the operator own fields outside of the
// metadata that are not theirs to set: those fields become the operator's, so that the next apply removes what it does not
// name. It returns nil if there are none.
func foreignFields(o *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, error) {
	var rest []metav1.ManagedFieldsEntry
	mine, taken := fieldpath.NewSet(), false
	for _, e := range o.GetManagedFields() {
		if e.Subresource != "" || e.FieldsV1 == nil {
			rest = append(rest, e)
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read the managed fields of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if e.Manager == owner && e.Operation == metav1.ManagedFieldsOperationApply {
			mine = mine.Union(set)
			continue
		}
		theirs := fieldpath.NewSet()
		set.Iterate(func(p fieldpath.Path) {
			if isMetadata(p) || sharedWithOthers(o.GetKind(), p) {
				theirs.Insert(p.Copy())
			} else {
				mine.Insert(p.Copy())
				taken = true
			}
		})
		if !theirs.Empty() {
			var err error
			if e.FieldsV1, err = encode(theirs); err != nil {
				return nil, err
			}
			rest = append(rest, e)
		}
	}
	if !taken {
		return nil, nil
	}
	fields, err := encode(mine)
	return append(rest, metav1.ManagedFieldsEntry{
		Manager: owner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: o.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: fields,
	}), err
}

// isMetadata reports whether a field is part of what users may add: metadata of the object or of its pods, such as the
// annotation of kubectl rollout restart.
func isMetadata(p fieldpath.Path) bool {
	text := p.String()
	for _, prefix := range []string{".metadata", ".spec.template.metadata", ".status"} {
		if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// shared are fields outside of the metadata that others set, by kind: the operator takes them from nobody. It still repairs one
// that it sets itself.
var shared = map[string][]string{
	// OpenShift adds the account's pull secrets, and again if they are removed. Administrators add those of a private registry.
	"ServiceAccount": {".secrets", ".imagePullSecrets"},
	// cert-manager injects the authorities of a certificate that it issues; AKS adds a selector to every webhook.
	"ValidatingWebhookConfiguration": {".clientConfig.caBundle", ".namespaceSelector"},
}

// sharedWithOthers reports whether the field is, or lies in, one that others set on objects of the kind.
func sharedWithOthers(kind string, p fieldpath.Path) bool {
	text := p.String()
	if kind == "ValidatingWebhookConfiguration" { // its fields are those of the item of a list: .webhooks[name="..."]
		_, text, _ = strings.Cut(text, "]")
	}
	return slices.ContainsFunc(shared[kind], func(field string) bool {
		rest, found := strings.CutPrefix(text, field)
		return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func encode(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	text, err := set.ToJSON()
	if err != nil {
		return nil, err
	}
	fields := metav1.NewFieldsV1(string(text))
	return fields, nil
}

// takeOver writes the managed fields, unless the object has changed since it was read.
func (r *Reconciler) takeOver(ctx context.Context, o *unstructured.Unstructured, fields []metav1.ManagedFieldsEntry) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
	})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, o.DeepCopy(), client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("take over %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// fixed are the fields that the API server does not let change.
var fixed = map[string][][]string{
	"DaemonSet":          {{"spec", "selector"}},
	"Deployment":         {{"spec", "selector"}},
	"CSIDriver":          {{"spec", "attachRequired"}, {"spec", "volumeLifecycleModes"}},
	"RoleBinding":        {{"roleRef"}},
	"ClusterRoleBinding": {{"roleRef"}},
}

// replaceable reports whether the object can be changed into the wanted one.
func replaceable(want, have *unstructured.Unstructured) bool {
	for _, path := range fixed[want.GetKind()] {
		w, _, _ := unstructured.NestedFieldNoCopy(want.Object, path...)
		h, _, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		if !equality.Semantic.DeepEqual(w, h) {
			return false
		}
	}
	return true
}

// replace deletes an object that cannot become the wanted one. A DaemonSet's pods are deleted with it, and before it: two
// agents on one node would serve one claim twice.
func (r *Reconciler) replace(ctx context.Context, have *unstructured.Unstructured) error {
	err := r.Client.Delete(ctx, have, client.Preconditions{UID: new(have.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replace %s %s: %w", have.GetKind(), have.GetName(), err)
	}
	return nil
}

// older are the objects of the existing operator that one agent for both kinds of volumes replaces, its DaemonSet first.
var older = []struct{ apiVersion, kind, name string }{
	{"apps/v1", "DaemonSet", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "hostpath-provisioner"},
	{"v1", "ServiceAccount", "hostpath-provisioner-admin"},
}

// managedBy is the label of what an operator installed.
const managedBy = "app.kubernetes.io/managed-by"

// removeOlder deletes objects of the existing operator, and returns what has to be gone before the agents are installed: two
// agents on one node would serve a claim twice. If only pods on nodes that do not answer are left, which nothing can end, it
// returns these nodes instead: they get no agent yet.
func (r *Reconciler) removeOlder(ctx context.Context) (waiting string, without []string, err error) {
	for _, old := range older {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(old.apiVersion)
		o.SetKind(old.kind)
		key := client.ObjectKey{Name: old.name}
		if old.kind == "DaemonSet" || old.kind == "ServiceAccount" {
			key.Namespace = r.Namespace
		}
		err := r.Client.Get(ctx, key, o)
		switch {
		case apierrors.IsNotFound(err), err == nil && o.GetLabels()[managedBy] != owner:
			continue
		case err != nil:
			return "", nil, err
		case o.GetDeletionTimestamp() == nil:
			if err := r.replace(ctx, o); err != nil {
				return "", nil, err
			}
		}
		if old.kind == "DaemonSet" {
			return r.olderPods(ctx, o)
		}
	}
	return "", nil, nil
}

// olderPods returns what removeOlder does about the pods of a DaemonSet that is deleted.
func (r *Reconciler) olderPods(ctx context.Context, set *unstructured.Unstructured) (waiting string, without []string, err error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(r.Namespace)); err != nil {
		return "", nil, fmt.Errorf("list the pods of DaemonSet %s: %w", set.GetName(), err)
	}
	waiting = "the pods of the older DaemonSet " + set.GetName()
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		dead, err := r.onDeadNode(ctx, pod)
		if err != nil || !dead || pod.DeletionTimestamp == nil {
			return waiting, nil, err
		}
		without = append(without, pod.Spec.NodeName)
	}
	if len(without) == 0 { // the DaemonSet itself is on its way
		return waiting, nil, nil
	}
	slices.Sort(without)
	return "", slices.Compact(without), nil
}

// notOn returns the affinity without the nodes.
func notOn(nodes []string, affinity *corev1.Affinity) *corev1.Affinity {
	if len(nodes) == 0 {
		return affinity
	}
	var fields []corev1.NodeSelectorRequirement
	for _, node := range nodes { // a field takes one value
		fields = append(fields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
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
		if term := &required.NodeSelectorTerms[i]; len(term.MatchExpressions)+len(term.MatchFields) > 0 { // an empty one matches no node
			term.MatchFields = append(term.MatchFields, fields...)
		}
	}
	return a
}
