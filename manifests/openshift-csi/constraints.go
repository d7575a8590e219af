// Package openshiftcsi has the constraints of this directory, for the operator.
package openshiftcsi

import _ "embed" // the manifest

// Constraints is the SecurityContextConstraints of the agents, in YAML.
//
//go:embed scc.yaml
var Constraints []byte

// ForOperator changes an object of Constraints to those of all pods that the operator makes in the
// namespace. The pods of pools on claims request besides a claim, and the host's processes: the one
// that unmounts names those that keep a mount busy.
func ForOperator(constraints map[string]any, namespace string) {
	constraints["users"] = []any{"system:serviceaccount:" + namespace + ":hostpath-provisioner-admin-csi"}
	constraints["allowHostPID"] = true
	constraints["volumes"] = []any{"hostPath", "persistentVolumeClaim", "projected"}
}
