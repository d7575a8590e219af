package suite

import (
	"os"
	"os/exec"
	"testing"
)

// A custom resource without a schema, for the table.
const tables = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tables.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: tables, singular: table, kind: Table, listKind: TableList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestSimulatedAPI has the real API server answer the requests to which the simulation's gives the
// same answers.
func TestSimulatedAPI(t *testing.T) {
	t.Parallel()
	_, err := env.Plane.Kubectl(tables, "apply", "-f", "-")
	if err == nil {
		_, err = env.Plane.Kubectl("", "wait", "--for=condition=Established", "--timeout=1m", "crd/tables.example.com")
	}
	if err == nil {
		_, err = env.Plane.Kubectl("", "get", "tables.example.com") // kubectl tries again while the storage starts
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run=^TestTable$", "./controller/simulation/apiserver")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOWORK=off", "HPP_API_KUBECONFIG="+env.Plane.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
