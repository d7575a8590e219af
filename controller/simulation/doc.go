// Package simulation finds bad sequences of events. It runs the real agents, the operator and the
// agents of raw disks in an invented cluster, on invented time, and judges after each step whether
// data was lost, a volume was given up too early, or a claim waits without an event.
//
//	world.go     World: nodes, disks, and the clock that kernel and simulation share
//	process.go   lives of agents and operators: started, killed between any two writes
//	manager.go   what Kubernetes does beside us: binds, releases, protects, schedules
//	operator_*.go  installed: the operator whole, with workloads, kubelets, disks; its acts and rules
//	act.go       the table of acts, and how a step of words is carried out
//	act_*.go     the acts of one subject each
//	judge*.go    the account of who wrote what where; rules.go: what must be true of it
//	rawdisk*.go  the agents of raw disks, their acts, and what must be true of disks
//	run.go       a run by a seed or by words, and its end without faults
//	shrink.go    the shortest run that still fails
//
// A run is a list of steps in words, such as `disk away node-01/b` or `wait 5m`. A seed draws the
// steps; a failure is replayed and shortened from the words alone. Everything happens in a bubble
// of testing/synctest, so an hour takes a second or two, and nothing listens: sockets, kubelets,
// mounts and kernels are not simulated. The pools are real directories.
//
// The package is for tests. Processes do not import it.
package simulation
