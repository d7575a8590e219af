package events

import "slices"

// Reasons of events. Each has a row in Reasons, from which docs/reference/events.md is generated.
const (
	AnnotationIgnored       = "AnnotationIgnored"
	CopyIncomplete          = "CopyIncomplete"
	Copying                 = "Copying"
	ConfigurationChanged    = "ConfigurationChanged"
	ConfigurationRefused    = "ConfigurationRefused"
	DriverMissing           = "DriverMissing"
	DeviceBusy              = "DeviceBusy"
	DeviceConfigDiffers     = "DeviceConfigDiffers"
	DeviceConfigInvalid     = "DeviceConfigInvalid"
	DeviceError             = "DeviceError"
	DeviceGone              = "DeviceGone"
	DeviceRefused           = "DeviceRefused"
	DeviceTwice             = "DeviceTwice"
	DeviceUnclear           = "DeviceUnclear"
	DeviceWipeFailed        = "DeviceWipeFailed"
	DeviceWiped             = "DeviceWiped"
	DeviceWithdrawn         = "DeviceWithdrawn"
	QuotaNotEnforced        = "QuotaNotEnforced"
	Migrated                = "Migrated"
	Migrating               = "Migrating"
	MigrationStopped        = "MigrationStopped"
	NodeGone                = "NodeGone"
	OriginalElsewhere       = "OriginalElsewhere"
	OriginalRunning         = "OriginalRunning"
	OrphansFound            = "OrphansFound"
	OrphansRemoved          = "OrphansRemoved"
	ParameterIgnored        = "ParameterIgnored"
	PoolMoved               = "PoolMoved"
	PoolNotReady            = "PoolNotReady"
	PoolNotSelected         = "PoolNotSelected"
	PoolReady               = "PoolReady"
	SeveralNodes            = "SeveralNodes"
	ProvisioningFailed      = "ProvisioningFailed" // the library's, so that one search finds all refusals
	RecordsDamaged          = "RecordsDamaged"
	VolumeConditionAbnormal = "VolumeConditionAbnormal" // this and the next are those of the external health monitor
	VolumeConditionNormal   = "VolumeConditionNormal"
	VolumeFailedDelete      = "VolumeFailedDelete" // the library's
	VolumeHeld              = "VolumeHeld"
	VolumeKept              = "VolumeKept"
	VolumeMissing           = "VolumeMissing"
	VolumeNodeGone          = "VolumeNodeGone"
	VolumeRefused           = "VolumeRefused"
	VolumeReleased          = "VolumeReleased"
	VolumeResizeFailed      = "VolumeResizeFailed" // this and the next are those of the external resizer
	VolumeResizeSuccessful  = "VolumeResizeSuccessful"
	VolumeUndeleted         = "VolumeUndeleted"

	// Those of HostPathProvisioners. The names of the first are the existing operator's.
	CreateResourceSuccess = "CreateResourceSuccess"
	CreateResourceFailed  = "CreateResourceFailed"
	UpdateResourceSuccess = "UpdateResourceSuccess"
	UpdateResourceFailed  = "UpdateResourceFailed"
	ReplaceResourceFailed = "ReplaceResourceFailed"
	ResourceContested     = "ResourceContested"
	AnotherInstallation   = "AnotherInstallation"
	PoolUnmounted         = "PoolUnmounted"
	PoolNotUnmounted      = "PoolNotUnmounted"
	PoolClaimUnwanted     = "PoolClaimUnwanted"
	TemplateNodeUnused    = "TemplateNodeUnused"
)

// Reason describes the events of one reason.
type Reason struct {
	Name   string
	Type   string // Normal or Warning
	Object string // the kinds of objects that have such events
	When   string
	Action string // of the user or the administrator; "" if none is needed
	// Library is set if only the provisioner library records the reason.
	Library bool
}

// Reasons returns all reasons, those of one kind of object together.
func Reasons() []Reason { return slices.Clone(reasons) }

var reasons = []Reason{
	{Name: "Provisioning", Type: "Normal", Object: "claim", Library: true,
		When: "the agent of the claim's node begins to create the volume"},
	{Name: "ProvisioningSucceeded", Type: "Normal", Object: "claim", Library: true,
		When: "the PV is saved"},
	{Name: ProvisioningFailed, Type: "Warning", Object: "claim",
		When: "the agent refuses the claim, or cannot create its volume or save its PV; also if no agent can serve the " +
			"claim: its node, PV or pool does not exist, or no node has the space",
		Action: "do what the message says. The agent retries if the cause can go away without a change of the claim"},
	{Name: "ProvisioningCleanupFailed", Type: "Warning", Object: "claim", Library: true,
		When:   "the PV could not be saved, and the volume could not be deleted again",
		Action: "see the agent's log. The agent removes an empty directory without a PV when its claim is gone"},
	{Name: AnnotationIgnored, Type: "Normal", Object: "claim",
		When: "the claim has the annotation `kubevirt.io/provisionOnNode` and a class of the CSI driver, for which the " +
			"scheduler chooses the node once a pod uses the claim",
		Action: "remove the annotation, or use a class of the hostPath provisioner"},
	{Name: ParameterIgnored, Type: "Normal", Object: "StorageClass",
		When:   "a class of a provisioner of hostPath PVs has parameters that have no effect, and a claim of it was served",
		Action: "correct a misspelt parameter: a class cannot be edited, so create another one; otherwise none"},
	{Name: NodeGone, Type: "Normal", Object: "claim",
		When: "the scheduler had chosen a node that does not exist any more; the operator, or an agent, removes the choice"},
	{Name: QuotaNotEnforced, Type: "Warning", Object: "claim",
		When:   "the pool enforces no quota on the volume, and its class does not require one",
		Action: "none if this is intended; otherwise see [quotas.md](../quotas.md)"},
	{Name: Copying, Type: "Normal", Object: "claim",
		When: "the agent copies the volume of the claim's source; again after ten minutes, and then each hour. Also if it " +
			"chose its own node for the claim, in place of the scheduler's, because that node has the source",
		Action: "none; if the pod of the claim then waits, it cannot run on that node"},
	{Name: CopyIncomplete, Type: "Warning", Object: "claim",
		When:   "the copy lacks something that the source has, such as device nodes",
		Action: "none if the copy is good without what the message names; otherwise copy that yourself"},
	{Name: VolumeResizeSuccessful, Type: "Normal", Object: "claim",
		When: "the volume has the larger size that the claim requests"},
	{Name: VolumeResizeFailed, Type: "Warning", Object: "claim",
		When:   "the volume cannot grow to the requested size, or claim and PV cannot be written after it has",
		Action: "free space in the pool, or request less: not less than the size in the claim's status"},
	{Name: Migrating, Type: "Normal", Object: "claim",
		When: "the agent replaces the claim's PV; the claim is Lost for some seconds"},
	{Name: Migrated, Type: "Normal", Object: "claim",
		When: "the claim is bound to the new PV of the same directory"},
	{Name: MigrationStopped, Type: "Warning", Object: "claim and PV",
		When:   "a migration cannot go on",
		Action: "remove the cause that the message names; the migration then goes on. See [migration.md](../migration.md)"},
	{Name: VolumeConditionAbnormal, Type: "Warning", Object: "claim, or pod of an inline volume",
		When:   "a volume that is mounted for a pod has a new problem",
		Action: "see the condition in the message, and [troubleshooting.md](../troubleshooting.md)"},
	{Name: VolumeConditionNormal, Type: "Normal", Object: "claim, or pod of an inline volume",
		When: "such a volume had no problem at five checks in a row"},
	{Name: VolumeRefused, Type: "Warning", Object: "PV",
		When: "a PV of this node does not match its record, its pool or the naming of directories, or the agent serves " +
			"its provisioner no more, or the API server refuses marks that it needs; the agent does not touch PV and data",
		Action: "do what the message says: correct the PV, or delete it after its data is safe; or serve its provisioner " +
			"again"},
	{Name: VolumeFailedDelete, Type: "Warning", Object: "PV",
		When: "the claim is deleted and the policy is Delete, but the agent may not or cannot delete the volume, or the PV " +
			"after it",
		Action: "do what the message says, or delete the PV after its data is safe"},
	{Name: VolumeHeld, Type: "Warning", Object: "PV",
		When: "the PV is deleted, but its reclaim policy, which decides about the volume from then on, is not recorded: " +
			"the pool is not ready",
		Action: "mount or repair the disk. If it never returns, run the command of the message"},
	{Name: VolumeKept, Type: "Normal", Object: "PV",
		When:   "a restored PV has a new claim, and the agent may not list the pods that could still use the old one",
		Action: "delete the old claim, or apply `manifests/examples/populators`"},
	{Name: VolumeMissing, Type: "Warning", Object: "PV",
		When: "the directory of the volume was removed while its disk is mounted",
		Action: "restore it from a backup; [the runbook](../runbooks/HPPVolumesMissing.md) has what to look for before it " +
			"is given up"},
	{Name: VolumeNodeGone, Type: "Warning", Object: "PV and claim",
		When: "the operator found the volume's node gone for the grace period, or made again without the volume, and the " +
			"volume is kept",
		Action: "bring the node back with its disk, or run the commands of the message to give the data up; see " +
			"[node-gone.md](../node-gone.md)"},
	{Name: VolumeReleased, Type: "Warning", Object: "PV and claim",
		When: "the operator deletes the object, as the class asks for volumes whose node is gone",
		Action: "none for the object; whatever used it gets a new, empty volume on another node. See " +
			"[node-gone.md](../node-gone.md)"},
	{Name: PoolNotReady, Type: "Warning", Object: "node",
		When:   "a pool cannot be opened or does not respond; no volume is created or deleted there",
		Action: "repair or mount the disk; the agent opens the pool again by itself"},
	{Name: PoolNotSelected, Type: "Warning", Object: "node",
		When: "the labels of the node do not match the nodeSelector of a pool, and the pool or PVs of it are on the " +
			"node: it is served, and gets no new volumes",
		Action: "label the node again, or move its volumes to another node"},
	{Name: PoolReady, Type: "Normal", Object: "node",
		When: "such a pool is ready again"},
	{Name: PoolMoved, Type: "Normal", Object: "node",
		When:   "a pool was empty, and a disk was mounted at its path: the pool is on that disk now",
		Action: "none if the disk is the right one"},
	{Name: DriverMissing, Type: "Warning", Object: "node",
		When: "the CSIDriver object is gone, or has not attachRequired: false, so pods with volumes of the driver wait " +
			"for an attacher; without it the scheduler ignores what nodes have available",
		Action: "make it again by the command of the message"},
	{Name: SeveralNodes, Type: "Warning", Object: "node",
		When: "the agent serves a provisioner for clusters of one node, and the cluster has another node; new claims wait",
		Action: "remove or cordon the other nodes, or use a class of another provisioner; see " +
			"[single-node.md](../single-node.md)"},
	{Name: RecordsDamaged, Type: "Warning", Object: "node",
		When:   "the agent cannot read some records; it does not touch these volumes",
		Action: "see [troubleshooting.md](../troubleshooting.md)"},
	{Name: OrphansFound, Type: "Warning", Object: "node",
		When:   "volumes without a PV, or provisioned directories without a record and a PV, were found",
		Action: "see *Orphans* in [operations.md](../operations.md)"},
	{Name: OrphansRemoved, Type: "Normal", Object: "node",
		When: "with `--orphans=delete`, volumes were removed whose PVs and claims were gone for `--orphan-grace`"},
	{Name: VolumeUndeleted, Type: "Normal", Object: "node",
		When: "an administrator brought a deleted volume back, which the pool had kept"},
	{Name: OriginalRunning, Type: "Warning", Object: "node",
		When:   "the local-path provisioner runs beside an agent that stands in for it; new claims of its classes wait",
		Action: "end it, as [from-local-path.md](../from-local-path.md) says; the agent then goes on by itself"},
	{Name: OriginalElsewhere, Type: "Warning", Object: "node",
		When: "a Deployment of the local-path provisioner's name runs in a namespace where that provisioner is not " +
			"expected; claims do not wait for it",
		Action: "none if it is a tenant's; otherwise end it, or set `--local-path-namespaces`"},
	{Name: ConfigurationChanged, Type: "Normal", Object: "node",
		When: "the ConfigMap `local-path-config` gives the node other directories; the agent starts again"},
	{Name: ConfigurationRefused, Type: "Warning", Object: "node",
		When: "the ConfigMap `local-path-config` was changed and is wrong, names a directory that can be no pool, or " +
			"lacks one that has volumes; the agent goes on with the one before. One that starts keeps the path for the " +
			"volumes that are there",
		Action: "correct what the message names"},
	{Name: DeviceConfigInvalid, Type: "Warning", Object: "node",
		When: "the ConfigMap of the node's disks or its directory cannot be read, or the ConfigMap is wrong; nothing " +
			"changes. Or the directory does not exist: the node has no disks. Or its names are those of slots, and " +
			"the kubelet would format another disk in one",
		Action: "correct what the message names; see [raw-disks.md](../raw-disks.md)"},
	{Name: DeviceConfigDiffers, Type: "Warning", Object: "PV",
		When: "the ConfigMap would make the PV of a disk otherwise; the PV stays until its claim is deleted",
		Action: "none if this is intended; otherwise change the ConfigMap back. The PV is made otherwise once its " +
			"claim has gone"},
	{Name: DeviceRefused, Type: "Warning", Object: "node",
		When:   "a disk without a PV carries data; it is not wiped and not offered",
		Action: "set `existing: wipe` in the ConfigMap, wipe the disk by hand, or leave it out of the ConfigMap's filter"},
	{Name: DeviceBusy, Type: "Warning", Object: "PV, or node for a disk without one",
		When:   "a disk has to be wiped and something uses it; it is tried again",
		Action: "end the use that the message names"},
	{Name: DeviceError, Type: "Warning", Object: "PV, or node for a disk without one",
		When:   "a disk cannot be read or offered, or is no block device",
		Action: "do what the message says, or leave it out of the ConfigMap's filter"},
	{Name: DeviceTwice, Type: "Normal", Object: "PV",
		When: "another device reports the ID and the size of a PV's disk: it is taken for another path to that disk, and is " +
			"not offered",
		Action: "none if it is another path; a disk of its own, such as a clone, needs an ID of its own"},
	{Name: DeviceUnclear, Type: "Warning", Object: "PV",
		When: "the disk at the PV's path may not be the one that the PV was made for; it is neither wiped nor offered to " +
			"another claim",
		Action: "compare the disk, and confirm it with the annotation that `disks inspect` prints, or attach the right one"},
	{Name: DeviceWipeFailed, Type: "Warning", Object: "PV, or node for a disk without one",
		When:   "a disk cannot be wiped; its PV stays Released, and it is tried again, later each time",
		Action: "replace the disk"},
	{Name: DeviceWiped, Type: "Normal", Object: "PV, or node for a disk without one",
		When: "a disk is wiped and verified"},
	{Name: DeviceGone, Type: "Warning", Object: "PV",
		When:   "the device of a PV with a claim is gone",
		Action: "attach the disk again: the data is on it. Only with a disk that is lost for good may claim and PV go"},
	{Name: DeviceWithdrawn, Type: "Normal", Object: "PV",
		When: "the PV of a disk had no claim and is deleted: the device or its node is gone, its node offers none " +
			"any more, or another program of the host uses the disk"},
	{Name: CreateResourceSuccess, Type: "Normal", Object: "HostPathProvisioner",
		When: "the operator created an object"},
	{Name: CreateResourceFailed, Type: "Warning", Object: "HostPathProvisioner",
		When:   "the operator cannot create an object",
		Action: "do what the message says; the operator tries again"},
	{Name: UpdateResourceSuccess, Type: "Normal", Object: "HostPathProvisioner",
		When: "the operator changed an object, or repaired it"},
	{Name: UpdateResourceFailed, Type: "Warning", Object: "HostPathProvisioner",
		When:   "the operator cannot change an object",
		Action: "do what the message says; the operator tries again"},
	{Name: ReplaceResourceFailed, Type: "Warning", Object: "HostPathProvisioner",
		When:   "an object cannot be changed as it should be, and the operator cannot delete it to create it again",
		Action: "do what the message says; the operator tries again"},
	{Name: ResourceContested, Type: "Warning", Object: "HostPathProvisioner",
		When:   "another program or an admission webhook changes an object again after each repair",
		Action: "end these changes; the message names field managers that may be their source"},
	{Name: AnotherInstallation, Type: "Warning", Object: "HostPathProvisioner",
		When:   "an installation in another namespace serves the cluster; the operator does nothing",
		Action: "remove one of the two"},
	{Name: PoolUnmounted, Type: "Normal", Object: "HostPathProvisioner",
		When: "the disk of a pool on claims, which is no longer wanted there, is unmounted on a node"},
	{Name: PoolNotUnmounted, Type: "Warning", Object: "HostPathProvisioner",
		When:   "such a disk stays mounted: something uses it, or its node is not ready",
		Action: "end the use that the message names; see [claim-pools.md](../claim-pools.md)"},
	{Name: PoolClaimUnwanted, Type: "Warning", Object: "claim",
		When:   "a claim of a pool on claims has no volume, and the pool was removed, or its node is no longer to have it",
		Action: "delete the claim while it is Pending, or add the pool again"},
	{Name: TemplateNodeUnused, Type: "Warning", Object: "HostPathProvisioner",
		When: "no capacity is published for a template node, because no storage class of its pool is checked by " +
			"the scheduler",
		Action: "create such a class, or change the pool; see [autoscaling.md](../autoscaling.md)"},
}
