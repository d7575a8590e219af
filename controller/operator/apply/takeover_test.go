package apply

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func managed(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "apps/v1", Subresource: subresource,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

// What others set outside of the metadata becomes the operator's, and the rest stays theirs.
func TestForeignFields(t *testing.T) {
	own := managed(Owner, metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:paused":{}}}`)
	status := managed("controller", metav1.ManagedFieldsOperationUpdate, "status", `{"f:status":{"f:x":{}}}`)
	labels := managed("user", metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:labels":{"f:team":{}}}}`)
	restart := managed("kubectl-rollout", metav1.ManagedFieldsOperationUpdate, "",
		`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`)
	edit := managed("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "",
		`{"f:metadata":{"f:annotations":{"f:note":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"x\"}":{".":{},"f:image":{}}}}}}}`)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet"}}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{own, status, labels, restart})
	if got, err := foreignFields(o); got != nil || err != nil {
		t.Errorf("%v, %v, want nothing to take over", got, err)
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{own, status, labels, restart, edit})
	got, err := foreignFields(o)
	if err != nil || len(got) != 5 {
		t.Fatalf("%v, %v", got, err)
	}
	mine, theirs := got[4], got[3]
	if text := mine.FieldsV1.GetRawString(); mine.Manager != Owner || mine.Operation != metav1.ManagedFieldsOperationApply ||
		!strings.Contains(text, "f:paused") || !strings.Contains(text, `k:{\"name\":\"x\"}`) || strings.Contains(text, "note") {
		t.Errorf("the operator has %s", text)
	}
	if text := theirs.FieldsV1.GetRawString(); theirs.Manager != "kubectl-edit" || !strings.Contains(text, "f:note") || strings.Contains(text, "containers") {
		t.Errorf("they have %s", text)
	}
}

func TestContains(t *testing.T) {
	want := map[string]any{"a": "1", "list": []any{map[string]any{"name": "x"}}}
	for name, row := range map[string]struct {
		have map[string]any
		same bool
	}{
		"defaults": {map[string]any{"a": "1", "b": "2", "list": []any{map[string]any{"name": "x", "protocol": "TCP"}}}, true},
		"value":    {map[string]any{"a": "2", "list": []any{map[string]any{"name": "x"}}}, false},
		"item":     {map[string]any{"a": "1", "list": []any{map[string]any{"name": "x"}, map[string]any{"name": "y"}}}, false},
		"no list":  {map[string]any{"a": "1"}, false},
		"kind":     {map[string]any{"a": "1", "list": "x"}, false},
	} {
		if got := contains(want, row.have); got != row.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The fields that are shared are those of their kind, with all that lies in them, and no others.
func TestSharedFields(t *testing.T) {
	hook := `{"f:webhooks":{"k:{\"name\":\"x\"}":{%s}}}`
	for _, row := range []struct {
		kind, fields string
		taken        bool
	}{
		{"ServiceAccount", `{"f:imagePullSecrets":{},"f:secrets":{}}`, false},
		{"ServiceAccount", `{"f:imagePullSecrets":{"k:{\"name\":\"x-dockercfg\"}":{}}}`, false},
		{"ServiceAccount", `{"f:automountServiceAccountToken":{}}`, true},
		{"Role", `{"f:secrets":{}}`, true},
		{"ValidatingWebhookConfiguration", fmt.Sprintf(hook, `"f:clientConfig":{"f:caBundle":{}}`), false},
		{"ValidatingWebhookConfiguration", fmt.Sprintf(hook, `"f:namespaceSelector":{"f:matchExpressions":{}}`), false},
		{"ValidatingWebhookConfiguration", fmt.Sprintf(hook, `"f:failurePolicy":{}`), true},
		{"ValidatingWebhookConfiguration", fmt.Sprintf(hook, `"f:clientConfig":{"f:url":{}}`), true},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": row.kind}}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{managed("someone", metav1.ManagedFieldsOperationUpdate, "", row.fields)})
		if got, err := foreignFields(o); err != nil || (got != nil) != row.taken {
			t.Errorf("%s %s: taken over %v, %v", row.kind, row.fields, got != nil, err)
		}
	}
}
