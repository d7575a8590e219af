package objects

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Pool is a pool whose disk is the volume of a claim on each node.
type Pool struct {
	Name string
	// Path is the directory of the pool, at which the filesystem is mounted.
	Path string
	// Template describes the claims. It is nil for a pool that stays as it is while PVs use it.
	Template *corev1.PersistentVolumeClaimSpec
	// NodeSelector are the labels of the nodes that get a disk, none for all.
	NodeSelector map[string]string
	// ScaleDown is set if the cluster-autoscaler may remove a node that has the pool.
	ScaleDown bool
}

// On reports whether the pool gets a disk on the node.
func (p Pool) On(n Node) bool {
	return labels.SelectorFromSet(p.NodeSelector).Matches(labels.Set(n.Labels))
}

// Node is a node on which an agent runs.
type Node struct {
	Name string
	// Offered are the pools that the agent offers and has open, if it is ready. They have their UUIDs, ""
	// if the agent publishes none.
	Offered map[string]string
	// Labels are those of the Node, none if there is no Node.
	Labels map[string]string
}

// Reasons of pools that are not ready. The last two stay until a user changes the template.
const (
	NotReady    = "StoragePoolNotReady"
	Unsupported = "StoragePoolUnsupported"
	Shared      = "SharedPoolUnsupported"
)

// Refused returns why there cannot be a pool on claims of the template, as a reason and a message,
// or "".
func Refused(template *corev1.PersistentVolumeClaimSpec) (reason, message string) {
	switch {
	case slices.Contains(template.AccessModes, corev1.ReadWriteMany):
		return Shared, "nodes cannot share a pool; remove pvcTemplate, or request ReadWriteOnce"
	case slices.Contains(template.AccessModes, corev1.ReadOnlyMany):
		return Unsupported, "a pool is written to; request ReadWriteOnce in pvcTemplate"
	case IsBlock(template):
		return Unsupported, "a pool needs a filesystem, and pvcTemplate has volumeMode Block; for a new pool, remove " +
			"volumeMode. If the pool has claims already, they stay block devices: add a pool of another name and path"
	}
	return "", ""
}

// IsBlock reports whether the claim is a block device, which no holder of this operator can mount.
func IsBlock(claim *corev1.PersistentVolumeClaimSpec) bool {
	return ptr.Deref(claim.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
}

// Desired is what there should be.
type Desired struct {
	Pools []Pool
	Nodes []Node
	// Agents is how many nodes are to have an agent. While agents are replaced, it is more than
	// there are Nodes.
	Agents int
	// Settled is true if no other node is to have an agent. Otherwise nothing is unmounted because
	// of a node.
	Settled bool
	// Deleted is true if the resource is deleted: then Reconcile does not wait for a node that is
	// not ready, and a holder that may not end stays without an owner.
	Deleted bool
	// Forced is true if it is deleted by force: then a disk that a Job cannot unmount stays mounted
	// until its node restarts.
	Forced bool
}

// Count returns how many nodes are to offer the pools.
func (w Desired) Count() int { return max(w.Agents, len(w.Nodes)) }

// Names reports whether the holder's pool is wanted at its path.
func (w Desired) Names(h poolrecord.Holder) bool {
	return slices.ContainsFunc(w.Pools, func(p Pool) bool { return p.Name == h.Pool && p.Path == h.Path })
}
