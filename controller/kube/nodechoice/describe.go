package nodechoice

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

const delayed = storagev1.VolumeBindingWaitForFirstConsumer

// Agents and operators of all versions hash the topic into the name of the event, so that one of
// them records it. Do not change these values.
const (
	topicUnassigned  = "nobodys"
	topicNodeMissing = "elsewhere"
	topicUnscheduled = "unscheduled"
	topicNodeGone    = "node gone"
)

// NodeMissing returns the topic and the message of the event about a claim whose annotation
// names a node that does not exist.
func NodeMissing(node string) (topic, message string) {
	return topicNodeMissing, fmt.Sprintf(
		"the annotation %s names node %q, which does not exist: correct it (kubectl get nodes lists them)",
		contract.AnnProvisionOnNode, node)
}

// NoNode returns the topic and the message of the event about a claim of the class that names
// no node although the class binds at once.
func NoNode(sc *storagev1.StorageClass) (topic, message string) {
	if sc.Provisioner == contract.HostPathProvisioner {
		return Unassigned()
	}
	return Unscheduled(sc.Name)
}

// Unassigned is NoNode of a class of the hostPath provisioner.
func Unassigned() (topic, message string) {
	return topicUnassigned, fmt.Sprintf(
		"no node is named for this claim: annotate it with %s: <node>, or use a class with volumeBindingMode %s",
		contract.AnnProvisionOnNode, delayed)
}

// Unscheduled is NoNode of a class of the CSI driver.
func Unscheduled(className string) (topic, message string) {
	return topicUnscheduled, fmt.Sprintf(
		"no node will be chosen for this claim: only the scheduler may choose one, and class %q has no "+
			"volumeBindingMode %s; a class cannot be edited: delete it and create it again with that mode, or use another "+
			"class", className, delayed)
}
