// Package recovery applies the plans of agents, by which the PVs and claims of volumes are made again,
// with the rights of its user.
//
//	volumes.go  reads what the API server has of each volume, and decides again by the same rules
//	apply.go    writes the claim, then the PV
//	finish.go   waits until both are bound, and gives the PV its policy back
//
// A plan is the output of a program in a pod. Its objects are checked before they are written: see
// recovery.CheckObjects, and Trusted.
package recovery
