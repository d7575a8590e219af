// Package torture runs a campaign against the agent: tenants that make, fill, grow and delete volumes on three nodes,
// while agents and the API server are killed and disks run full. Then it lets everything settle, and looks in the cluster
// and on the disks for what was
//
//   - lost: a volume, its record, its PV or its data that should be there;
//   - leaked: a directory, record, limit, promise or PV that nobody needs any more, or a claim that nobody serves and
//     nobody speaks of;
//   - double: two volumes or PVs for one claim, two PVs for one directory, more promised than there is.
//
// The control plane, the agents and the disks are real, and pods are scheduled; there is no kubelet. The agents are built
// with the race detector, and a data race is a failure too, as is an agent that ends by itself or not when it should.
//
// A seed decides who does what and in which order, not when the others do something: the same seed is the same
// pressure, not the same interleaving.
package torture
