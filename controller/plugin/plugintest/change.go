package plugintest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Add adds objects.
func (c *Cluster) Add(objects ...runtime.Object) { c.Objects = append(c.Objects, objects...) }

// Get returns the first object of a kind and a name, to be changed. It panics if there is none.
func Get[T any](c *Cluster, name string) *T {
	for _, o := range c.Objects {
		if of, is := any(o).(*T); is && any(o).(metav1.Object).GetName() == name {
			return of
		}
	}
	panic("no " + name)
}

// Drop removes the objects of a kind and of these names, all of the kind without names.
func Drop[T any](c *Cluster, names ...string) {
	c.Objects = slices.DeleteFunc(c.Objects, func(o runtime.Object) bool {
		_, is := any(o).(*T)
		return is && (len(names) == 0 || slices.Contains(names, any(o).(metav1.Object).GetName()))
	})
}

// Node returns a node.
func (c *Cluster) Node(name string) *corev1.Node { return Get[corev1.Node](c, name) }

// Pod returns a pod.
func (c *Cluster) Pod(name string) *corev1.Pod { return Get[corev1.Pod](c, name) }

// Agent returns the pod of a node's agent.
func (c *Cluster) Agent(node string) *corev1.Pod { return c.Pod("agent-" + node) }

// Claim returns a claim.
func (c *Cluster) Claim(name string) *corev1.PersistentVolumeClaim {
	return Get[corev1.PersistentVolumeClaim](c, name)
}

// PV returns a PV.
func (c *Cluster) PV(name string) *corev1.PersistentVolume {
	return Get[corev1.PersistentVolume](c, name)
}

// Class returns a class.
func (c *Cluster) Class(name string) *storagev1.StorageClass {
	return Get[storagev1.StorageClass](c, name)
}

// NotReady makes a node one that is not ready, and its pods, too.
func (c *Cluster) NotReady(node string) {
	c.Node(node).Status.Conditions[0].Status = corev1.ConditionUnknown
	for _, o := range c.Objects {
		if p, is := o.(*corev1.Pod); is && p.Spec.NodeName == node {
			p.Status = corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name}}}
		}
	}
}

// Provision sets PROVISION of all agents.
func (c *Cluster) Provision(value string) {
	for _, o := range c.Objects {
		if p, is := o.(*corev1.Pod); is && p.Labels["k8s-app"] == "hostpath-provisioner-csi" {
			p.Spec.Containers[0].Env[0].Value = value
		}
	}
}

// Event records an event about an object, of a minute ago.
func (c *Cluster) Event(kind, name, reason, message string) *corev1.Event {
	namespace, level := metav1.NamespaceDefault, corev1.EventTypeWarning
	switch kind {
	case "PersistentVolumeClaim":
		namespace = "shop"
	case "Pod", "DaemonSet":
		namespace = "hpp"
	}
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "." + reason}, Reason: reason, Message: message, Type: level,
		LastTimestamp: Ago(time.Minute), InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}}
	c.Add(e)
	return e
}
