// Package recovery has the rules by which the PV and the claim of a volume are made again, after a
// cluster lost them and its disks did not.
//
//	plan.go      the plan of a node, which its agent prints and kubectl hpp reads
//	decide.go    what becomes of one volume, from its record and from what the API server has
//	together.go  what only the volumes of all nodes together show: earlier tenants, two of one claim
//	pending.go   whether a claim that waits for a volume may get this one
//	policy.go    the reclaim policy, which is Retain until PV and claim are bound
//
// The agent makes a plan with its own rights, and writes nothing. kubectl hpp reads the API server
// with the rights of its user, decides again by the same rules, and writes:
//
//  1. the claim, with the name of the PV in spec.volumeName: no provisioner serves it, and a
//     StatefulSet that creates the claim finds it there. A claim that waits gets the name by a patch;
//  2. the PV, with the recorded name and policy Retain. Its claimRef has the claim's name and no UID,
//     so that it cannot be released before it was bound;
//  3. once both are Bound, the reclaim policy that the volume had.
//
// Killed between any two, the next run finds what is there and goes on.
package recovery
