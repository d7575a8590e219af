package claims

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Agents of all versions hash the topic into the name of the event, so that one agent
// records it. Do not change these values.
const (
	// TopicUnserved is the topic of claims whose pool is not offered on this node, or that
	// no node can serve.
	TopicUnserved = "unserved"

	topicChosenMissing = "chosen node missing"
	topicPVMissing     = "pv missing"
	topicIgnored       = "ignored"
)

// chosenMissing returns the topic and the message of the event about a claim for which the
// scheduler chose a node that does not exist, and that the agent may not change.
func chosenMissing(node, namespace, name string) (topic, message string) {
	return topicChosenMissing, fmt.Sprintf(
		"the annotation %s names node %q, which does not exist, so no pod of this claim can be scheduled: "+
			"remove it, and the scheduler chooses again: kubectl -n %s annotate pvc %s %[1]s-", contract.AnnSelectedNode, node,
		namespace, name)
}

// AnnotationIgnored returns the topic and the message of the event about a claim of a class of the
// CSI driver that names a node.
func AnnotationIgnored(className string) (topic, message string) {
	return topicIgnored, fmt.Sprintf("the annotation %s is ignored: the scheduler chooses the node of a volume of "+
		"class %q, once a pod uses the claim; to choose it yourself, set spec.nodeSelector in the pod, or use a class "+
		"of provisioner %s",
		contract.AnnProvisionOnNode, className, contract.HostPathProvisioner)
}

func pvMissing(pv string) (topic, message string) {
	return topicPVMissing, fmt.Sprintf(
		"spec.volumeName names PV %q, which does not exist, so this claim waits for it: restore that PV, "+
			"or delete this claim and create it again without volumeName for a new, empty volume", pv)
}

// tooLarge returns the message of the event about a claim that requests more than any node
// publishes for its class.
func tooLarge(p *pendingClaim, pool string, o offers) string {
	return fmt.Sprintf("%s requested, and no node has that much available in pool %s: the most is %s, on node %s, of "+
		"%d with that pool (in bytes: requested %d, available %d): request less, free space, or use a class with a "+
		"larger pool",
		contract.Size(p.bytes), pool, contract.Size(o.largest), o.node, o.nodes, p.bytes, o.largest)
}
