// Package csi is the CSI driver of one node: the Identity, Controller and Node
// services over the pools of this node, on a unix socket.
//
// Every handler has one shape: check, translate, call the volume library,
// translate back. Checks come first and change nothing. What goes around all
// of them stands in one place: the interceptor logs, times, maps errors to
// codes and turns a panic into an answer.
//
//	server.go       what the driver is made of, and serving on it
//	kubelet/        the socket, and the registration with the kubelet
//	target/         target paths: mount, verify, unmount
//	inline/         ephemeral inline volumes: make, delete, collect
//	interceptor.go  around every call
//	errors.go       an error becomes a code (pure)
//	check.go        what a request may ask for (pure)
//	parameters.go   what a class, a PV or a pod says of a volume (pure)
//	pools.go        which pool
//	identity.go     controller.go  expand.go  list.go  node.go  stats.go
//
// A volume's handle is its directory's name, and the request's. It is unique
// on the node: a name that one pool has is refused for another. So a handle
// alone finds its volume, in whatever pool, by the record.
//
// A call names a claim only where the sidecar was told to add it, and never by
// its UID. The volume's name has it: Kubernetes names a volume pvc-<uid>. That
// UID is what is recorded as the owner's, and so the claim loop, which knows
// the claim itself, records the very same for the same volume. A name of
// another form gives no UID, and a PV that is seen later supplies it.
package csi
