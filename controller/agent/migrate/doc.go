// Package migrate replaces the hostPath PV of a volume by a CSI PV, and back. The directory and its
// files do not change. Neither a PV's source nor a claim's volumeName can be edited, so the agent
// deletes the PV and creates one of the same name whose claimRef has the claim's UID. The claim is
// Lost for a moment in between. Running pods keep their mounts.
//
//	migrator.go  the loop: check all PVs of this node, then migrate
//	check.go     collects what a verdict needs
//	verdict.go   whether a PV may be migrated, and why not (pure)
//	claims.go    the claims of PVs, and which pods use them
//	plan.go      the verdicts of all PVs, as a table; the flag, and the annotation on a PV
//	journal.go   the volume's journal, and the PVs in it
//	admit.go     dry runs of what a migration writes, and refusals
//	swap.go      the steps for one volume
//	halt.go      cancels or stops one
//	stranded.go  migrations that an agent of one backend cannot finish
//	write.go     writes to the API server
//	events.go
//
// Only the journal, which is in the pool, is remembered. Each step reads the API server and derives
// the next one, so an agent that was killed continues where it stopped. See docs/on-disk-format.md.
//
// A volume of another provisioner has a record only while its PV is a CSI PV of this
// driver, or in a migration: the first write of the journal creates the record, and the
// last one removes it. In between it is migrated like any other. A record that was there
// before stays: an agent that served that provisioner may have created it.
//
// The provisioning loop decides which PVs are of this node, and does not touch them while their
// journal is open. Only the holder of the pool's lock writes to journals and PVs.
package migrate
