// Package contract defines the contract of the provisioner: names, parameters of
// classes, checks of claims, the dialects of provisioners, and the PV objects of both
// backends. Its functions compute values; none performs I/O.
package contract

import (
	"crypto/sha256"
	"encoding/hex"
)

// Names that users, other operators and existing disks depend on. They do not change.
const (
	// HostPathProvisioner is the provisioner of classes that get hostPath PVs.
	HostPathProvisioner = "kubevirt.io/hostpath-provisioner"
	// CSIProvisioner is the provisioner of classes that get CSI PVs, and the
	// name of the CSI driver.
	CSIProvisioner = "kubevirt.io.hostpath-provisioner"
	// TopologyNode is the topology key of a CSI volume; its value is the node.
	TopologyNode = "topology.hostpath.csi/node"
	// LabelTemplateNode is the label of the nodes that the cluster-autoscaler simulates; its value
	// is "true" (kubernetes/autoscaler#9702).
	LabelTemplateNode = "cluster-autoscaler.kubernetes.io/template-node"
	// StoragePool is the class parameter and volume attribute that names the
	// pool. If it is absent, the pool is DefaultPool.
	StoragePool = "storagePool"
	// DefaultPool is the pool of classes and volumes that name none.
	DefaultPool = "legacy"
	// AnnProvisionOnNode on a claim requests a node; on a PV it names the volume's node.
	AnnProvisionOnNode = "kubevirt.io/provisionOnNode"
	// AnnIdentity on a PV names its provisioner: HostPathProvisioner, or the node
	// whose process of SingleNodeProvisioner created it.
	AnnIdentity = "hostPathProvisionerIdentity"
	// AnnPool on a PV is the UUID of the pool that holds the volume.
	AnnPool = "hostpath-provisioner.kubevirt.io/pool"
	// AnnAgent on the pod template of each form marks the pods of agents: other programs have the same
	// labels, names and paths, and none may be run in those.
	AnnAgent = "hostpath-provisioner.kubevirt.io/agent"
	// AnnMigrate on a PV overrides the flag --migrate-to-csi for its volume: run, back or off.
	AnnMigrate = "hostpath-provisioner.kubevirt.io/migrate"
	// AnnReplaces on a PV is the UID of the PV of the same name and directory that it replaced.
	AnnReplaces = "hostpath-provisioner.kubevirt.io/replaces"
	// AnnPolicy on a PV is the reclaim policy that it gets when a migration is
	// over. Until then the policy is Retain.
	AnnPolicy = "hostpath-provisioner.kubevirt.io/reclaim-policy"
	// AnnMigrated on a claim is the UID of the PV that replaced its first one.
	AnnMigrated = "hostpath-provisioner.kubevirt.io/migrated"
	// AnnNodeUID on a PV is the UID of the Node whose agent last bound the volume: a
	// Node with another one was created since, and may be another machine.
	AnnNodeUID = "hostpath-provisioner.kubevirt.io/node-uid"
	// AnnCluster on a PV is the UID of the cluster (that of the namespace kube-system) whose
	// agent last bound the volume. PVs of another cluster, or of none, are never given up.
	AnnCluster = "hostpath-provisioner.kubevirt.io/cluster"
	// AnnGiveUp on a Node is an administrator's word that volumes are lost: the Node's own UID
	// for those of an earlier Node of its name, the UUID of a pool for those of a disk.
	AnnGiveUp = "hostpath-provisioner.kubevirt.io/give-up"
	// AnnMissing on a PV is its agent's report that the pool is not open, or that it is open
	// and does not have the volume, with the Node's UID.
	AnnMissing = "hostpath-provisioner.kubevirt.io/missing"
	// AnnGivenUp on a PV is the UID of the Node whose AnnGiveUp gave the volume up. The agent of
	// that Node does not expect the PV's pool any more.
	AnnGivenUp = "hostpath-provisioner.kubevirt.io/given-up"
	// AnnDeleteVolume on a PV is its own UID: an administrator's word that this PV, which its
	// agent cannot know for the volume's, may delete the volume.
	AnnDeleteVolume = "hostpath-provisioner.kubevirt.io/delete-volume"
	// AnnNodeGone on a class is the policy for its volumes on nodes that are gone.
	AnnNodeGone = "hostpath-provisioner.kubevirt.io/node-gone"
	// AnnFormerPolicy on a PV is the reclaim policy that it had before the operator set Retain, to
	// give the PV up without its directory, or that its volume had when the PV was made again. It
	// returns once PV and claim are Bound.
	AnnFormerPolicy = "hostpath-provisioner.kubevirt.io/former-reclaim-policy"
	// AnnLostNamespace on a PV that was made again has the UIDs of the cluster that lost it, and of the
	// namespace of its claim there: CLUSTER/NAMESPACE.
	AnnLostNamespace = "hostpath-provisioner.kubevirt.io/lost-namespace"
	// AnnPoolPolicy on the PV of a pool's claim is the reclaim policy that it had before the operator
	// set Retain, for as long as the pool's holder lives.
	AnnPoolPolicy = "hostpath-provisioner.kubevirt.io/pool-reclaim-policy"
	// AnnHeldPool on the PV of a pool's claim is a HeldPool. The volumes of that pool are on the PV,
	// whatever becomes of the claim.
	AnnHeldPool = "hostpath-provisioner.kubevirt.io/held-pool"
	// LabelNode on a PV is LabelValue of the node, so that a node can watch its own PVs only.
	LabelNode = "hostpath-provisioner.kubevirt.io/node"
)

// LabelDisk on the PV of a raw disk is LabelValue of its node. It is a name of cybozu's
// local-pv-provisioner; all PVs have the label by its older name, too.
const (
	LabelDisk      = "local-pv-provisioner.cybozu.io/node"
	LabelDiskOlder = "local-pv-provisioner.cybozu.com/node"
)

// Names of Kubernetes that have no constant in its client libraries.
const (
	// AnnStorageProvisioner is written on a claim that waits for a provisioner.
	AnnStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	// AnnSelectedNode is the scheduler's choice for a claim.
	AnnSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnProvisionedBy on a PV names the provisioner that made it.
	AnnProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// AnnBoundByController is written on a PV that Kubernetes gives to a claim, and stays there.
	AnnBoundByController = "pv.kubernetes.io/bound-by-controller"
	// Finalizer is the provisioner library's, which keeps a PV until its volume is deleted.
	Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// HostnamesConfigMap is the ConfigMap in which the administrator lists the hostnames of nodes, the
// present one first, for the agents and for manifests/policy. HostnamesNamespace has it.
const (
	HostnamesConfigMap = "hostpath-provisioner-hostnames"
	HostnamesNamespace = "hostpath-provisioner"
)

// HashedLabel begins the node label of a node whose name is too long for a label.
const HashedLabel = "sha256-"

// maxLabelValue is the longest value that Kubernetes accepts for a label.
const maxLabelValue = 63

// LabelValue returns the value of LabelNode for a node: its name, or a hash of the
// name if that is longer than a label's value can be.
func LabelValue(node string) string {
	if len(node) <= maxLabelValue {
		return node
	}
	sum := sha256.Sum256([]byte(node))
	return HashedLabel + hex.EncodeToString(sum[:])[:40]
}
