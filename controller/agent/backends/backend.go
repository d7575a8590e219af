package backends

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Backend serves the claims and the PVs of one provisioner.
type Backend struct {
	Provisioner string           // its name in classes and on PVs
	Dialect     contract.Dialect // the zero Dialect if it is the CSI driver
	IsCSI       bool
	Pools       []*volume.Pool // that may hold volumes of any class
	Claims
	PVs
}

// Claims defines how a backend makes volumes for claims, and PVs of them.
type Claims interface {
	// Check returns nil if claim and class request what is supported. The error is for
	// the claim's user; no retry changes it.
	Check(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) error
	// PoolsFor returns the pools that may hold volumes of the class, none if this node
	// lacks the pool that the class names.
	PoolsFor(*storagev1.StorageClass) []*volume.Pool
	// Missing describes the pool that the class names and this node lacks.
	Missing(*storagev1.StorageClass) string
	// Directory returns the name of the directory of a claim's new volume.
	Directory(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) string
	// NewPV describes the PV of a volume. The library adds the claimRef.
	NewPV(Made) *corev1.PersistentVolume
	// GivesBack reports whether a refused claim goes back to the scheduler, for another node.
	GivesBack(*corev1.PersistentVolumeClaim, *storagev1.StorageClass, Why) bool
}

// Made is a claim whose volume exists, and what its PV is made of.
type Made struct {
	Name   string
	Claim  *corev1.PersistentVolumeClaim
	Class  *storagev1.StorageClass
	Pool   *volume.Pool
	Volume volume.Volume
	At     contract.Place
	Policy corev1.PersistentVolumeReclaimPolicy
}

// Why is why a claim is refused.
type Why struct {
	NoSpace   bool // the pool has no space for it
	Temporary bool // the answer may change, and this agent is the one that answers
}

// PVs reads and checks the fields of the PVs of a backend.
type PVs interface {
	// OfThisNode reports whether a PV names this node. It ignores the node label.
	OfThisNode(*corev1.PersistentVolume) bool
	// PoolOf returns the pool and the directory that a PV names. The pool is nil if this
	// node has no such pool. PoolOf checks nothing else.
	PoolOf(*corev1.PersistentVolume) (*volume.Pool, string)
	// Marks returns the marks by which a PV names its node, without Volume.
	Marks(*corev1.PersistentVolume) identity.PV
	// Validate returns the pool and the directory of a PV. It returns an error unless
	// provisioner and pool of the PV are those of the agent. Any writer of PVs can choose
	// these fields: Validate compares a path and never opens it. The caller checks whose the
	// volume is by the marks, and that its record names the PV.
	Validate(*corev1.PersistentVolume) (*volume.Pool, string, error)
	// Adoptable returns nil if the agent may adopt the directory of a valid PV, which
	// has no record.
	Adoptable(*corev1.PersistentVolume, *volume.Pool, string) error
	// Deletable returns nil if the agent may delete the volume of a valid PV when the
	// PV's reclaim policy is Delete.
	Deletable(*corev1.PersistentVolume) error
}

// Node is the node of the backends.
type Node interface {
	Name() string
	UID() string      // that of the Node; it changes if the Node is registered again
	Hostname() string // the label kubernetes.io/hostname
	Former() []string // hostnames that it had before, by the administrator's word
}

// CommonMarks returns the marks that PVs of all backends have.
func CommonMarks(pv *corev1.PersistentVolume, node Node) identity.PV {
	value := pv.Labels[contract.LabelNode]
	return identity.PV{
		NodeUID: node.UID() != "" && pv.Annotations[contract.AnnNodeUID] == node.UID(),
		Label: identity.Name{Mark: "label " + contract.LabelNode, Value: value,
			Own: value == contract.LabelValue(node.Name())},
	}
}

// CheckPool returns an error if the PV's pool UUID is not that of the pool. It returns
// nil if the PV has no UUID, or if the pool was never open and has no identity yet.
func CheckPool(pv *corev1.PersistentVolume, pool *volume.Pool) error {
	if id := pv.Annotations[contract.AnnPool]; id != "" && pool.ID() != "" && id != pool.ID() {
		return fmt.Errorf("it names pool %s, and the pool in %s is %s", id, pool.Path(), pool.ID())
	}
	return nil
}
