package events

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim refers to a claim in an event.
func Claim(c *corev1.PersistentVolumeClaim) corev1.ObjectReference {
	return reference("PersistentVolumeClaim", c.Namespace, c.Name, c.UID, c.ResourceVersion)
}

// PV refers to a PV in an event.
func PV(pv *corev1.PersistentVolume) corev1.ObjectReference {
	return reference("PersistentVolume", "", pv.Name, pv.UID, pv.ResourceVersion)
}

// Node refers to a node in an event: as the kubelet does, by its name in place of
// its UID.
func Node(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

func reference(kind, namespace, name string, uid types.UID, version string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: uid, ResourceVersion: version,
	}
}
