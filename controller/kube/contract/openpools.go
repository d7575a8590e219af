package contract

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// PoolsClass is the class of the object with which an agent publishes its pools. No StorageClass has
// this name, and the object has no capacity, so that the scheduler never chooses a node by it.
const PoolsClass = "pools.hostpath-provisioner.kubevirt.io"

// ProbePath is what the kubelet probes of an agent: whether it serves claims and is registered. Its
// pools are published, so that the disk of one node keeps no node from an update.
const ProbePath = "/readyz/agent"

// AnnPools on a CSIStorageCapacity of PoolsClass has the NodePools of its node, as JSON.
const AnnPools = "hostpath-provisioner.kubevirt.io/pools"

// maxPools bounds the bytes of AnnPools. The agent of 32 pools writes half of it.
const maxPools = 64 << 10

// NodePools is what an agent publishes of its node's pools. An agent can publish what is not so, or
// have ended: it delays what deletes, and permits nothing.
type NodePools struct {
	// Pod is the name of the agent's pod, "" for an agent outside a pod. Another pod of the node has
	// not published yet.
	Pod   string     `json:"pod,omitempty"`
	Pools []NodePool `json:"pools"`
}

// NodePool is the state of one pool of a node.
type NodePool struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// ID is the pool's UUID, that of the last time if it is not open, "" if it never was.
	ID   string `json:"id,omitempty"`
	Open bool   `json:"open,omitempty"`
	// OpenIn is the pod that had the pool open last, "" if none did.
	OpenIn string `json:"openIn,omitempty"`
	// Why is why the pool is not open.
	Why string `json:"why,omitempty"`
}

// Opens reports whether the pool with that UUID is open on the node.
func (n NodePools) Opens(id string) bool {
	return id != "" && slices.ContainsFunc(n.Pools, func(p NodePool) bool { return p.Open && p.ID == id })
}

// Named returns the pool of that name.
func (n NodePools) Named(name string) (NodePool, bool) {
	i := slices.IndexFunc(n.Pools, func(p NodePool) bool { return p.Name == name })
	if i < 0 {
		return NodePool{}, false
	}
	return n.Pools[i], true
}

// Publish writes the pools into the object.
func (n NodePools) Publish(o *storagev1.CSIStorageCapacity) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("publish the node's pools: %w", err)
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[AnnPools] = string(text)
	return nil
}

// PoolsOf returns the pools that the object publishes, and their node. ok is false if the object
// publishes none, or if they cannot be read.
func PoolsOf(o *storagev1.CSIStorageCapacity) (n NodePools, node string, ok bool) {
	node, text := CapacityNode(o), o.Annotations[AnnPools]
	if o.StorageClassName != PoolsClass || node == "" || len(text) > maxPools || json.Unmarshal([]byte(text), &n) != nil {
		return NodePools{}, "", false
	}
	return n, node, true
}

// PublishedPools returns what was published of each node.
func PublishedPools(objects []storagev1.CSIStorageCapacity) map[string]NodePools {
	all := map[string]NodePools{}
	for i := range objects {
		if n, node, ok := PoolsOf(&objects[i]); ok {
			all[node] = n
		}
	}
	return all
}

// PublishesPools reports whether the pod is that of an agent which publishes its pools. An earlier
// version is ready only if all of its pools are open.
func PublishesPools(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil && c.ReadinessProbe.HTTPGet.Path == ProbePath
	})
}
