// Package device offers the unused disks of a node as local PVs, and wipes a disk between two
// tenants.
//
//	controller.go  Controller: what it watches, and when it makes a pass
//	pass.go        one pass: devices and PVs are matched, and each device gets a state
//	spec.go        the ConfigMap
//	names.go       names of the contract, names of PVs
//	pv.go          the PV of a device
//	match.go       which PV is on which device; whose.go: what identifies a disk
//	job.go         work on one device, which can take hours
//	offer.go       a device without a PV: probed, wiped, offered
//	release.go     a device whose PV is Released: wiped, and its PV deleted
//	licence.go     what the API server is asked before a write
//	lease.go       which node has a disk that several reach
//	report.go      states of devices, for inspect and for metrics.go
//	events.go      events
//
// A pass reads the Node, its ConfigMap, its PVs and the directory, and compares them. It remembers
// nothing, but which work is under way, and which devices were wiped and have no PV yet. Passes
// follow each other; the work on a device runs beside them.
//
// Nothing is wiped by surprise. A device that carries anything is wiped only if it is proven to be
// the disk of a Released PV of this node, or if the ConfigMap has `existing: wipe`. A path proves
// nothing; see identity.OfDisk. Before the first write the device
// is opened exclusively, and the API server itself, no cache, is asked whether another PV or a
// claim is on it. The PV of a disk that was not wiped is never deleted.
package device
