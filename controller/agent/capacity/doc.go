// Package capacity publishes the available space of this node's pools for the scheduler:
// one CSIStorageCapacity for each class of the driver, in the agent's own namespace, and one more
// with the node's pools for the operator.
//
//	publisher.go  the Publisher and its loop
//	classes.go    watches classes and this node's objects; which classes get an object, and from which pool
//	object.go     builds and compares objects; their owner, and what a sidecar left
//	change.go     rounds sizes, and decides when a new one is written (pure)
//	gauge.go      reads the space of a pool
//	pass.go       compares the objects with the pools, and writes differences
//	pools.go      publishes which pools are open, for the operator
//	status.go     why objects cannot be published
//
// The scheduler finds an object by its class and by the Node's labels. It filters out a node
// without an object, or with a maximumVolumeSize below the claim's request
// (pkg/scheduler/framework/plugins/volumebinding of Kubernetes). If the size is too high, the agent
// refuses the claim and gives it back to the scheduler. If it is too low, the claim goes to another
// node although it would fit. Sizes are therefore rounded down by at most a thousandth.
//
// Objects outlive the agent. After a restart it writes only what differs.
package capacity
