package backends

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// csiDriver is the CSI driver on a node. The class parameter, or volume attribute, storagePool
// names the pool, and the volume handle the directory. It creates and records the same as
// CreateVolume of controller/agent/csi, so that either finds the other's volumes.
type csiDriver struct {
	node  Node
	name  string
	pools *volume.Pools
}

// CSI returns the backend of the CSI driver.
func CSI(node Node, driver string, pools *volume.Pools) *Backend {
	c := csiDriver{node: node, name: driver, pools: pools}
	return &Backend{Provisioner: driver, IsCSI: true, Pools: pools.All(), Claims: c, PVs: c}
}

func (c csiDriver) Check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := contract.CheckCSI(claim); err != nil {
		return err
	}
	if _, err := contract.ParametersOf(sc); err != nil {
		return err
	}
	// The driver would refuse to mount the volume.
	if _, err := mount.ParseFlags(sc.MountOptions, false); err != nil {
		return fmt.Errorf("class %q: %w; a class cannot be edited: delete it and create it again", sc.Name, err)
	}
	return nil
}

func (c csiDriver) Directory(claim *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) string {
	return contract.PVName(claim)
}

// PoolsFor returns the pool that the class names.
func (c csiDriver) PoolsFor(sc *storagev1.StorageClass) []*volume.Pool {
	if pool := c.pools.Named(contract.PoolName(sc.Parameters)); pool != nil {
		return []*volume.Pool{pool}
	}
	return nil
}

func (c csiDriver) Missing(sc *storagev1.StorageClass) string {
	return fmt.Sprintf("no pool %q, which class %q names; it has %q; use a class of one of these, or keep the pods off "+
		"this node",
		contract.PoolName(sc.Parameters), sc.Name, c.pools.Names())
}

// GivesBack returns a claim that another node may be able to serve. If another agent
// of this node has the pool, that agent answers. No other node can make a copy of a volume of this one.
func (c csiDriver) GivesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, w Why) bool {
	return w.Temporary && contract.Delayed(sc) && !contract.Copies(claim, sc)
}

func (c csiDriver) NewPV(m Made) *corev1.PersistentVolume {
	return contract.CSIPV(m.Name, m.Volume.Name, m.Pool.Name(), m.Claim, m.Class, m.At, m.Policy)
}

func (c csiDriver) OfThisNode(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == c.name && contract.TopologyOf(pv) == c.node.Name()
}

func (c csiDriver) PoolOf(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if !c.OfThisNode(pv) {
		return nil, ""
	}
	return c.pools.Named(contract.PoolName(pv.Spec.CSI.VolumeAttributes)), pv.Spec.CSI.VolumeHandle
}

func (c csiDriver) Validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
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
		return nil, "", fmt.Errorf("its volume attribute %s names the pool %q, and this node has %q", contract.StoragePool,
			name, c.pools.Names())
	}
	if err := CheckPool(pv, pool); err != nil {
		return nil, "", err
	}
	if err := volume.CheckName(source.VolumeHandle); err != nil {
		return nil, "", fmt.Errorf("its volume handle: %w", err)
	}
	return pool, source.VolumeHandle, nil
}

func (c csiDriver) Marks(pv *corev1.PersistentVolume) identity.PV {
	all, node := CommonMarks(pv, c.node), contract.TopologyOf(pv)
	all.Affinity = identity.Name{Mark: "its node affinity to " + contract.TopologyNode, Value: node,
		Own: node == c.node.Name()}
	return all
}

// Adoptable accepts any directory for a PV with the pool's UUID: its author has read the
// UUID from the pool. Other PVs must be named after their claim.
func (c csiDriver) Adoptable(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
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

// Deletable returns an error for a PV that an administrator wrote: the provisioner library
// requests the deletion of every CSI PV of the driver.
func (c csiDriver) Deletable(pv *corev1.PersistentVolume) error {
	if pv.Annotations[contract.AnnProvisionedBy] == c.name {
		return nil
	}
	return fmt.Errorf("no provisioner made this PV, so its volume is not deleted; to have it deleted, "+
		"kubectl annotate pv %s %s=%s; to keep it, set its reclaim policy to Retain", pv.Name, contract.AnnProvisionedBy,
		c.name)
}
