package provision

import (
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Holder is how the agent of a node names itself to one that finds its pool
// taken.
func Holder(node, host string) string { return fmt.Sprintf("%s (host %s)", agentOf(node), host) }

func agentOf(node string) string { return events.Component + " on node " + node }

// heldHere reports whether the pool is not ready because another agent of this
// same node has it: that one serves the node's claims, or soon ends.
func heldHere(err error, node string) bool {
	var held *fault.HeldError
	return errors.As(err, &held) && strings.HasPrefix(held.By, agentOf(node)+" ")
}
