package claims

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

const delayed = storagev1.VolumeBindingWaitForFirstConsumer

// NodeMissing returns the topic and the message of the event about a claim whose annotation
// names a node that does not exist.
func NodeMissing(node string) (topic, message string) {
	return topicRemoteByAnnotation, fmt.Sprintf(
		"the annotation %s names node %q, which does not exist: correct it (kubectl get nodes lists them)",
		class.AnnProvisionOnNode, node)
}

// NoNode returns the topic and the message of the event about a claim of the class that names
// no node although the class binds at once.
func NoNode(sc *storagev1.StorageClass) (topic, message string) {
	if sc.Provisioner == class.HostPathProvisioner {
		return unassignedClaim()
	}
	return unscheduledClaim(sc.Name)
}

func unassignedClaim() (topic, message string) {
	return topicUnassigned, fmt.Sprintf(
		"no node is named for this claim: annotate it with %s: <node>, or use a class with volumeBindingMode %s",
		class.AnnProvisionOnNode, delayed)
}

func unscheduledClaim(className string) (topic, message string) {
	return topicUnscheduled, fmt.Sprintf(
		"no node will be chosen for this claim: only the scheduler may choose one, and class %q has no volumeBindingMode %s; "+
			"a class cannot be edited: delete it and create it again with that mode, or use another class", className, delayed)
}
