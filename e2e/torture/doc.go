// Package torture runs a campaign against the agent: tenants create, fill, grow and delete volumes
// on three nodes, while agents and the API server are killed and disks run full. Then it waits
// until everything has settled, and compares the cluster with the disks. A finding is
//
//   - lost: a volume, its record, its PV or its data that should exist;
//   - leaked: a directory, record, quota, allocation or PV that nothing needs any more, or a claim
//     that is not served and has no event with the reason;
//   - double: two volumes or PVs for one claim, two PVs for one directory, more space allocated
//     than there is.
//
// Deleted volumes of some classes are kept, and some of them are undeleted for a claim of their name: with
// all files that they had. Volumes of one class are copied while tenants use them: a copy has the files that
// stayed in its source until it was Bound.
//
// With Config.Migrate PVs are replaced by PVs of the other backend meanwhile, there and back, and
// the API server refuses new PVs at times, before and after the old ones are deleted.
//
// The control plane, the agents and the disks are real, and pods are scheduled; there is no
// kubelet. The agents are built with the race detector. A data race is a failure too, and so is an
// agent that ends at the wrong time.
//
// The seed determines the actions of each tenant and their order, not their timing relative to
// others: the same seed causes the same load, not the same interleaving.
package torture
