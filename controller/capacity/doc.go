// Package capacity tells the scheduler what this node can still promise: one
// CSIStorageCapacity for each class of ours, in the agent's own namespace.
//
//	publisher.go  what a publisher is made of, and the order of things
//	classes.go    which classes get an object, and of which pool (pure)
//	object.go     the object, and whether one is as it should be (pure)
//	change.go     how numbers are rounded, and when a new one goes out (pure)
//	gauge.go      asks a pool
//	pass.go       brings what is published in line with what should be
//	owner.go      whose the objects are
//	leftovers.go  what others published for this node
//	informers.go  watches classes and this node's objects
//	status.go     what stands in the way
//
// The scheduler finds an object by its class and by the Node's labels, and
// passes by a node that has none, or whose maximumVolumeSize is less than the
// claim (pkg/scheduler/framework/plugins/volumebinding of Kubernetes). Where
// the number is too high, the claim comes here, is refused, and is given back
// to the scheduler; where it is too low, the claim goes elsewhere though it
// would fit. So numbers are rounded down, and never by more than a thousandth.
//
// Objects outlive the agent: one that starts again and finds the same numbers
// writes nothing.
package capacity
