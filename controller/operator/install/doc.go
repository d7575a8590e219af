// Package install brings the agents to what a HostPathProvisioner describes, and removes them.
//
// agent.yaml has the objects. The files of manifests/operator/agent are their source; the
// reconciler changes a few fields for the resource. It reads the cluster through a cache, and
// writes nothing while nothing differs.
//
//	reconcile.go   the order of the steps: begin here
//	pools.go       the layout of a pass, and the disks of its pools on claims
//	desired.go     the objects that a resource asks for
//	agents.go      reads the agents, which agentstatus judges
//	status.go      the verdict, the states of the pools
//	conditions.go  the conditions of each reason
//	tokens.go      who may read the metrics
//	delete.go      a resource that is deleted waits for its volumes; which volumes are in use
//	yield.go       leaves the cluster to another installation
//	patience.go    errors that end by themselves
package install

//go:generate sh -c "KUBECONFIG=/dev/null ../../../e2e/kubectl.sh kustomize ../../../manifests/operator/agent >agent.yaml"
