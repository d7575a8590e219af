// Package operator installs and keeps the agents that a HostPathProvisioner describes.
//
// agent.yaml has the objects. The files of manifests/operator/agent are their source; the reconciler changes them in a few
// lines for the resource, and applies what differs under one field owner. It reads the cluster through a cache and writes
// nothing while nothing differs.
//
//	desired.go    the objects that a resource asks for
//	pools.go      the pools, volumes and mounts of the agent; claimpools has the disks of pools on claims
//	configmap.go  which settings the ConfigMap may have
//	tune.go       what these settings change
//	retain.go     what PVs use although the resource does not name it
//	apply.go      compares an object with the cluster's, and applies it
//	takeover.go   takes fields over from others, and replaces what cannot be changed
//	former.go     removes what an older operator left, and waits for the pods of replaced agents
//	reconcile.go  the order of the steps; rollout judges the agents
//	delete.go     a resource that is deleted waits for its volumes
//	volumes.go    finds the volumes that are in use
//	status.go     conditions and the states of the pools
//	settings.go   the environment of the operator
//	manager.go    what is cached and watched
//	monitoring.go the objects for Prometheus
//	openshift.go  the constraints of the agents' pods, and the TLS profile
package operator

//go:generate sh -c "KUBECONFIG=/dev/null ../../e2e/kubectl.sh kustomize ../../manifests/operator/agent >agent.yaml"
