// Package disks is the agent of raw disks. It offers the unused disks of a node as local PVs, and
// wipes a disk between two tenants. It shares only the program with the agent of directories: it
// needs a privileged container and no pool, and has its own service account.
//
//	options.go     where each setting goes, and which are missing
//	disks.go       Run: the parts, joined
//	controller.go  Controller: what it watches, and when it makes a pass
//	pass.go        one pass: reads, plans, and applies the plan
//	plan.go        plan: a decision about each device and PV, from values alone
//	unclear.go     what plan decides where the disk of a PV is not known
//	slots.go       which PV is on which device; whose.go: what identifies a disk
//	spec.go        the ConfigMap
//	devices.go     Devices: what is called of volume/disk, which a simulation replaces
//	names.go       names of the contract, names of PVs
//	pv.go          the PV of a device
//	job.go         work on one device, which can take hours
//	wipe.go        that work: a disk is probed, wiped and offered, or wiped and its PV deleted
//	recheck.go     what the API server is asked before a write
//	lease.go       which node has a disk that several reach
//	report.go      states of devices, for inspect and for metrics.go
//
// A pass reads the Node, its ConfigMap, its PVs and the directory. It remembers only which work is
// under way, and which devices were wiped and have no PV yet. Passes follow each other; the work on
// a device runs beside them.
//
// A device that carries anything is wiped only if it is proven to be the disk of a Released PV of
// this node, or if the ConfigMap has `existing: wipe`. A path proves nothing; see identity.OfDisk.
// Before the first write the device is opened exclusively, and the API server itself, no cache, is
// asked whether another PV or a claim is on it. The PV of a disk that was not wiped is never
// deleted.
package disks
