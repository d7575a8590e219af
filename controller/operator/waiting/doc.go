// Package waiting watches claims that wait for the agent of their node, and PVs whose volumes wait for
// it to be deleted. It is part of the operator, which sees all nodes; an agent sees its own.
//
//	reconcile.go  watches claims, and waits before it acts
//	act.go        records an event by the node of a claim, and by who chose it
//	pods.go       finds pods that keep the scheduler from choosing a node
//	copies.go     the same for a claim whose volume is a copy, by the node of its source
//	giveback.go   gives the claim back to the scheduler
//	volumes.go    records an event on a PV whose volume nothing deletes
//
// A claim gets an event if
//
//   - it names no node, and the scheduler will not choose one,
//   - its pod names a node, so that the scheduler chooses none for the claim,
//   - its node does not exist,
//   - its node is not ready, has no agent, or one that is not ready.
//
// An agent's pod is away for a moment while it is replaced. So its absence is recorded only after it
// has lasted.
//
// If the scheduler chose a node that was deleted since, the choice is removed, so that the
// scheduler chooses again. A Node of the same name that was created after the choice is another
// node. A node that is not ready is not a deleted one.
//
// Agents do the same about a node that does not exist, or that is not named, for clusters without
// an operator. They wait longer, and do nothing if the operator has.
package waiting
