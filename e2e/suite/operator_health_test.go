package suite

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// health has what people and tools read: the table, the short name, the category, kubectl wait, and
// the generation.
func health(_ *testing.T, o *operated) {
	kubectl := func(args ...string) string {
		o.Helper()
		out, err := exec.Command(o.Plane.Binaries().Path("kubectl"), append(args, "--kubeconfig", o.Plane.Kubeconfig())...).CombinedOutput()
		if err != nil {
			o.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return strings.Join(strings.Fields(string(out)), " ")
	}
	table := func(want string) {
		o.Helper()
		if got := kubectl("get", "hpp"); !strings.HasPrefix(got, want) {
			o.Errorf("kubectl get hpp: %s, want it to begin with %s", got, want)
		}
	}
	table("NAME AVAILABLE READY REASON POOLS VERSION AGE hostpath-provisioner True True Complete local unknown ")
	if got := kubectl("get", "storage", "-o", "name"); !strings.Contains(got, serving) {
		o.Errorf("kubectl get storage: %s", got)
	}
	o.breaks(o.nodes[0].Name)
	defer o.breaks("")
	o.await("FFT", "Degraded", "1 of 2")
	table("NAME AVAILABLE READY REASON POOLS VERSION AGE hostpath-provisioner False False Degraded local unknown ")
	o.breaks("")
	kubectl("wait", "hpp/"+serving, "--for=condition=Ready", "--timeout=3m")
	table("NAME AVAILABLE READY REASON POOLS VERSION AGE hostpath-provisioner True True Complete local unknown ")

	o.change(`{"spec":{"imagePullPolicy":"Never"}}`)
	o.Eventually("the generation", func() error {
		cr, err := resources(o.Scene).Get(o.Context(), serving, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
		seen, _, _ := unstructured.NestedInt64(cr.Object, "status", "observedGeneration")
		for _, c := range conditions {
			if c := c.(map[string]any); c["observedGeneration"] != cr.GetGeneration() {
				return fmt.Errorf("condition %s has generation %v of %d", c["type"], c["observedGeneration"], cr.GetGeneration())
			}
		}
		if seen != cr.GetGeneration() || len(conditions) != 6 {
			return fmt.Errorf("generation %d of %d, %d conditions", seen, cr.GetGeneration(), len(conditions))
		}
		return nil
	})
	kubectl("wait", "hpp/"+serving, "--for=condition=Ready", "--timeout=3m")
	o.change(`{"spec":{"imagePullPolicy":null}}`)
	o.healthy()
}
