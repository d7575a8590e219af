// Package csi is the CSI driver of one node: the Identity, Controller and Node
// services over the pools of this node, on a unix socket.
//
// Every handler has one shape: it checks the request, which changes nothing, calls
// the volume library, and translates the result. The interceptor logs and times all
// calls, maps errors to codes, and turns a panic into an error.
//
//	server.go       the configuration, and serving; the Identity service
//	kubelet/        the sockets, and the registration with the kubelet
//	target/         mounts, verifies and unmounts target paths
//	inline/         makes and deletes ephemeral inline volumes
//	interceptor.go  what all calls have in common
//	errors.go       the code of an error (pure)
//	check.go        what a request may ask for (pure)
//	clone.go        copies of other volumes
//	parameters.go   the volume that parameters ask for (pure)
//	pools.go        which pool has a volume
//	controller.go   list.go  node.go  stats.go
//
// A volume's handle is the name of its directory and of the request that created it. It is unique
// on the node: no pool accepts a name that another has, so a handle alone finds the record.
//
// A call names a claim only if the provisioner sidecar adds it, and never by UID.
// The volume's name has the UID: Kubernetes names a volume pvc-<uid>. The record
// has that UID, and the provisioner, which sees the claim itself, records the same
// one. A name of another form has no UID; the volume's PV supplies it later.
package csi
