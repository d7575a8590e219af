package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// foreignFields returns the object's managed fields as they are to be, nil if they are: fields of
// others outside of the metadata become the operator's, unless others may set them. The next apply
// then removes those that it does not name.
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
		if e.Manager == Owner && e.Operation == metav1.ManagedFieldsOperationApply {
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
		Manager: Owner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: o.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: fields,
	}), err
}

// isMetadata reports whether a field is one that users may add: metadata of the object or of its
// pods, such as the annotation of kubectl rollout restart.
func isMetadata(p fieldpath.Path) bool {
	text := p.String()
	return strings.HasPrefix(text, ".metadata") || strings.HasPrefix(text, ".spec.template.metadata") ||
		strings.HasPrefix(text, ".status")
}

// shared are fields outside of the metadata that others set, by kind. The operator does not take
// them over. It still repairs one that it sets itself.
var shared = map[string][]string{
	// OpenShift adds the account's pull secrets, and again if they are removed. Administrators add
	// those of a private registry.
	"ServiceAccount": {".secrets", ".imagePullSecrets"},
	// cert-manager injects the authorities of its certificates; AKS adds a selector to webhooks.
	"ValidatingWebhookConfiguration": {".clientConfig.caBundle", ".namespaceSelector"},
}

// sharedWithOthers reports whether the field is in one that others set on objects of the kind.
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
	return metav1.NewFieldsV1(string(text)), err
}

// takeOver writes the managed fields, unless the object has changed since it was read.
func (a Applier) takeOver(ctx context.Context, o *unstructured.Unstructured, fields []metav1.ManagedFieldsEntry) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
	})
	if err != nil {
		return err
	}
	if err := a.client.Patch(ctx, o.DeepCopy(), client.RawPatch(types.JSONPatchType, patch)); err != nil {
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

// Delete deletes the object that was read, and no other of its name. A DaemonSet's pods are deleted
// with it, and before it: two agents on one node would serve one claim twice.
func (a Applier) Delete(ctx context.Context, have *unstructured.Unstructured) error {
	err := a.client.Delete(ctx, have, client.Preconditions{UID: new(have.GetUID())},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", have.GetKind(), have.GetName(), err)
	}
	return nil
}
