// Package doctor checks an installation for what will hurt. Each check is a function of what was
// read, and reads nothing itself.
//
//	facts.go    what is read, and Read
//	checks.go   the verdicts, the table of checks, and Run
//	agents.go   agents, operator, permissions, the kubelet's directory, versions
//	pools.go    pools, space, quotas, the system's disk, certificates
//	storage.go  classes, PVs and claims
//	cluster.go  clocks, the version of Kubernetes, the controller-manager
//	measure.go  how fast the controller-manager is
package doctor
