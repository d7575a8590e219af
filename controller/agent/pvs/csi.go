package pvs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
)

// csiDriver implements rules for CSI PVs. The volume attribute storagePool names the pool,
// and the volume handle the directory.
type csiDriver struct {
	node  Node
	nodes *otherNodes
	name  string
	pools *volume.Pools
}

func newCSIBackend(node Node, nodes *otherNodes, driver string, pools *volume.Pools) *backend {
	return &backend{rules: csiDriver{node: node, nodes: nodes, name: driver, pools: pools}, provisioner: driver,
		labelsUnchecked: true, mayLackPV: true, trustsCapacity: true}
}

func (c csiDriver) ofThisNode(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == c.name && contract.TopologyOf(pv) == c.node.Name()
}

func (c csiDriver) names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if !c.ofThisNode(pv) {
		return nil, ""
	}
	return c.pools.Named(contract.PoolName(pv.Spec.CSI.VolumeAttributes)), pv.Spec.CSI.VolumeHandle
}

func (c csiDriver) validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	source := pv.Spec.CSI
	if source == nil || source.Driver != c.name {
		return nil, "", fmt.Errorf("it names this agent's provisioner but has no volume of the CSI driver %s", c.name)
	}
	// A PV that an administrator wrote has no such annotation.
	if by := pv.Annotations[contract.AnnProvisionedBy]; by != "" && by != c.name {
		return nil, "", fmt.Errorf("annotation %s is %q, not %q", contract.AnnProvisionedBy, by, c.name)
	}
	if contract.TopologyOf(pv) == "" {
		return nil, "", fmt.Errorf("its node affinity is not just %s=%s", contract.TopologyNode, c.node.Name())
	}
	name := contract.PoolName(source.VolumeAttributes)
	pool := c.pools.Named(name)
	if pool == nil {
		return nil, "", fmt.Errorf("its volume attribute %s names the pool %q, and this node has %q", contract.StoragePool, name, c.pools.Names())
	}
	if err := checkPool(pv, pool); err != nil {
		return nil, "", err
	}
	if err := volume.CheckName(source.VolumeHandle); err != nil {
		return nil, "", fmt.Errorf("its volume handle: %w", err)
	}
	marks := c.marks(pv)
	marks.Volume = true
	return pool, source.VolumeHandle, c.nodes.whose(marks, c.node)
}

func (c csiDriver) marks(pv *corev1.PersistentVolume) identity.PV {
	all, node := commonMarks(pv, c.node), contract.TopologyOf(pv)
	all.Affinity = identity.Name{Mark: "its node affinity to " + contract.TopologyNode, Value: node, Own: node == c.node.Name()}
	return all
}

// adoptable accepts any directory for a PV with the pool's UUID: its author has read the
// UUID from the pool. Other PVs must be named after their claim.
func (c csiDriver) adoptable(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	if pv.Annotations[contract.AnnPool] == pool.ID() {
		return nil
	}
	own := contract.Own(false)
	if err := own.CheckNames(pv, directory); err != nil {
		return fmt.Errorf("%w; if directory %q of pool %s belongs to this PV, confirm it with the pool's UUID: "+
			"kubectl annotate pv %s %s=%s", err, directory, pool.Path(), pv.Name, contract.AnnPool, pool.ID())
	}
	return nil
}

// deletable returns an error for a PV that an administrator wrote: the provisioner library
// requests the deletion of every CSI PV of the driver.
func (c csiDriver) deletable(pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnProvisionedBy] == c.name {
		return nil
	}
	return fmt.Errorf("no provisioner made this PV, so its volume is not deleted; to have it deleted, "+
		"kubectl annotate pv %s %s=%s; to keep it, set its reclaim policy to Retain", pv.Name, contract.AnnProvisionedBy, c.name)
}
