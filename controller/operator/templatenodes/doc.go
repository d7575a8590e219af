// Package templatenodes publishes the capacity of the nodes that an autoscaler may add.
//
// The cluster-autoscaler asks the scheduler's code whether a pod would fit on a new node, for which
// it makes up a Node: a template. The objects of the agents are of nodes that exist, so no template
// has any capacity, and pods with claims cause no new node. The cluster-autoscaler therefore labels
// its templates (kubernetes/autoscaler#9702), and drivers publish CSIStorageCapacity objects for
// that label. No Node of a cluster has it, so the scheduler uses them for no node that exists.
//
//	desired.go    the objects that a resource and the storage classes ask for (pure)
//	reconcile.go  compares them with the cluster's, and writes differences
package templatenodes
