// Package openshiftcsi has the constraints of this directory, for the operator.
package openshiftcsi

import _ "embed" // the manifest

// Constraints is the SecurityContextConstraints of the agents.
//
//go:embed scc.yaml
var Constraints string
