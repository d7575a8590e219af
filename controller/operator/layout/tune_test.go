package layout

import (
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Agents that migrate have the permissions of the example.
func TestMigrationRules(t *testing.T) {
	file, err := os.ReadFile("../../../manifests/examples/migrate/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want rbacv1.ClusterRole
	role, _, _ := strings.Cut(string(file), "\n---\n")
	if err := yaml.Unmarshal([]byte(role), &want); err != nil || !reflect.DeepEqual(migrateRules, want.Rules) {
		t.Errorf("%v, %v, want the rules of the example %v", err, migrateRules, want.Rules)
	}
}

// Another order would replace the agents at each pass.
func TestSettingsHaveAnOrder(t *testing.T) {
	l := Layout{Tuned: map[string]string{}}
	var want []corev1.EnvVar
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		l.Tuned[name] = "1"
		want = append(want, corev1.EnvVar{Name: name, Value: "1"})
	}
	pod := corev1.PodSpec{Containers: make([]corev1.Container, 1)}
	if l.pass(&pod); !reflect.DeepEqual(pod.Containers[0].Env, want) {
		t.Errorf("%v, want %v", pod.Containers[0].Env, want)
	}
}
