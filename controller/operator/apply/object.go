package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Parse reads an object with integers as those that are read from the cluster have them: as floats
// they would always differ.
func Parse(document []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(text)
}

// applied is the annotation with a hash of the object as it was applied. It differs when a field is
// no longer wanted, which the object in the cluster does not show.
const applied = "hostpathprovisioner.kubevirt.io/applied"

// Seal adds the annotation applied to an object without annotations.
func Seal(o *unstructured.Unstructured) error {
	text, err := json.Marshal(o.Object)
	sum := sha256.Sum256(text)
	o.SetAnnotations(map[string]string{applied: hex.EncodeToString(sum[:8])})
	return err
}

// ToApply returns the object as it is applied, without its status.
func ToApply(o any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	delete(fields, "status")
	return &unstructured.Unstructured{Object: withoutNil(fields).(map[string]any)}, err
}

// withoutNil returns the value without keys whose value is null: to apply null would remove what
// the API server sets.
func withoutNil(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if inner == nil {
				delete(v, key)
			} else {
				v[key] = withoutNil(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNil(v[i])
		}
	}
	return value
}

// AddRules adds rules to a Role or ClusterRole.
func AddRules(role *unstructured.Unstructured, more ...rbacv1.PolicyRule) error {
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		return err
	}
	for i := range more {
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&more[i])
		if err != nil {
			return err
		}
		rules = append(rules, rule)
	}
	role.Object["rules"] = rules
	return nil
}

// ManagedBy is the label of what an operator installed.
const ManagedBy = "app.kubernetes.io/managed-by"
