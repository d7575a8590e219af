// Package migrate gives a volume of a hostPath PV a CSI PV, and back, while the
// directory and its files stay as they are. A PV's source cannot be edited, and
// a claim's volumeName neither; so the PV is deleted, and one of the same name,
// whose claimRef has the claim's UID, takes its place. The claim is Lost for a
// moment in between; pods that run go on with the mounts they have.
//
//	migrator.go  the loop: look at all PVs of this node, then move those that may
//	mode.go      what the flag and the annotation on a PV ask for
//	look.go      what is known of a PV, its claim and the node
//	judge.go     may it be moved, and why not (pure)
//	pods.go      which claims this node's pods use
//	plan.go      the answers for all PVs, as a table
//	journal.go   the volume's journal, and the PVs in it
//	others.go    volumes that another provisioner made: taken over, given back
//	swap.go      one volume, one step after the other
//	write.go     the writes to the API server
//	say.go       events
//	metrics.go
//
// Nothing is remembered but the journal, which is on the pool. Each step looks
// at what the API server has, and does what comes next; so an agent that was
// killed goes on where it was. docs/on-disk-format.md has the table.
//
// It runs beside the claim loop, which says which PVs are this node's, and
// leaves them alone while their journal is open. The owner of the pool's lock is
// the only one who writes to its journals and to these PVs.
package migrate
