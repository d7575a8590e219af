package provision

import (
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Holder returns the name that an agent writes into the lock of its pool. Another agent
// that finds the pool locked reports it.
func Holder(node, host string) string { return fmt.Sprintf("%s (host %s)", agentOf(node), host) }

func agentOf(node string) string { return events.Component + " on node " + node }

// heldHere reports whether the pool is not ready because another agent of this node has
// locked it. That agent serves the node's claims, or is about to end.
func heldHere(err error, node string) bool {
	var held *fault.HeldError
	return errors.As(err, &held) && strings.HasPrefix(held.By, agentOf(node)+" ")
}
