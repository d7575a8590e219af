package operator

import (
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
	own := managed(owner, metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:paused":{}}}`)
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
	if text := mine.FieldsV1.GetRawString(); mine.Manager != owner || mine.Operation != metav1.ManagedFieldsOperationApply ||
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

func TestParseSettings(t *testing.T) {
	env := map[string]string{"CSI_PROVISIONER_IMAGE": "b", "PROVISIONER_IMAGE": "c", "VERBOSITY": "3", "LIVENESS_PROBE_IMAGE": "x"}
	s, ignored, err := ParseSettings("v1", func(name string) string { return env[name] })
	if err != nil || s.Image != "b" || s.Verbosity != 3 || s.PartOf != "hostpath-provisioner" || len(ignored) != 1 || s.Namespace != "hostpath-provisioner" {
		t.Errorf("%+v, %v, %v", s, ignored, err)
	}
	for _, bad := range []map[string]string{{}, {"OPERATOR_IMAGE": "a", "VERBOSITY": "loud"}, {"OPERATOR_IMAGE": "a", "VERBOSITY": "-1"}} {
		if _, _, err := ParseSettings("v1", func(name string) string { return bad[name] }); err == nil || !strings.Contains(err.Error(), "_IMAGE") && !strings.Contains(err.Error(), "VERBOSITY") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
