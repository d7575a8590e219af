// Package monitoring has the manifests of this directory, for the operator and for tests.
//
// The rules are plain Prometheus rule files. prometheusrule.yaml is made of one of them, so that
// kubectl can apply it.
package monitoring

import _ "embed" // the manifests

// The files of this directory.
var (
	// AgentRules and OperatorRules are rule files of Prometheus.
	//
	//go:embed prometheus/agents.yaml
	AgentRules string
	//go:embed prometheus/operator.yaml
	OperatorRules string
	// PrometheusRule is an object with the groups of AgentRules.
	//
	//go:embed prometheusrule.yaml
	PrometheusRule string
	// RBAC lets Prometheus find the pods: a Role and a RoleBinding.
	//
	//go:embed rbac.yaml
	RBAC string
	// Service and ServiceMonitor are those of the operator and its agents.
	//
	//go:embed operator/service.yaml
	Service string
	//go:embed operator/servicemonitor.yaml
	ServiceMonitor string
	// Reader is an account that may read the metrics of the operator and its agents: a ServiceAccount,
	// a ClusterRole and a ClusterRoleBinding.
	//
	//go:embed operator/reader.yaml
	Reader string
)

// Namespace is that of the manifests, also in the expressions of OperatorRules.
const Namespace = "hostpath-provisioner"
