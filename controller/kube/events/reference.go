package events

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim returns the reference of an event to a claim.
func Claim(c *corev1.PersistentVolumeClaim) corev1.ObjectReference {
	return reference("PersistentVolumeClaim", c.Namespace, c.Name, c.UID, c.ResourceVersion)
}

// PV returns the reference of an event to a PV.
func PV(pv *corev1.PersistentVolume) corev1.ObjectReference {
	return reference("PersistentVolume", "", pv.Name, pv.UID, pv.ResourceVersion)
}

// Node returns the reference of an event to a node. As in the kubelet's events, the
// node's name is in place of its UID.
func Node(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

func reference(kind, namespace, name string, uid types.UID, version string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: uid, ResourceVersion: version,
	}
}
